/* SPDX-License-Identifier: MIT */
/* The measured loop, compiled once per lock and workload so that both inline. CMake generates a unit for each lock:
 *
 *   #define FGI_LOCK_FILE "locks/published/tatas.inc.h"     a lock of ours, or an adapter of peers/
 *   #include "worker/loop.h"
 *   #include "workloads/shm.h"          every workload there is
 *   ...
 *
 * Time is read where it costs nothing. The wait between two sections is measured in cycles anyway: its first reading
 * is the end of one operation, its last the beginning of the next. Only "now I have the lock" needs a reading of its
 * own, inside the section, so only every run->sample-th operation takes it, and only those enter the histograms, each
 * for all operations since the one before. After a long one the next is timed too: that costs it nothing it would
 * notice, and where a lock has collapsed there are few operations and each is long. The longest time from asking to
 * having released is kept over all operations. What all this costs beyond the bare loop is in
 * docs/results/worker-cost.md. */
#include "runtime/futex.h"
#include "worker/bench.h"
#include "worker/options.h"
#include "worker/random.h"
#include FGI_LOCK_FILE

/* What a section reads is written after this: a lock of tests/bench/ that excludes nobody lets others run here. */
#ifndef FGB_IN_SECTION
#define FGB_IN_SECTION() fg_compiler_barrier()
#endif

/* The lock as a library has it: one copy, called. For workloads that lock in many places: a process may register
 * FG_MAX_WINDOWS windows, and each inlined copy brings some. */
static __attribute__((noinline)) void fgb_call_lock(struct fg_lock *lock)
{
	fgi_lock(lock);
}

static __attribute__((noinline)) void fgb_call_unlock(struct fg_lock *lock)
{
	fgi_unlock(lock);
}

#define FGB_LONG 100000 /* cycles; a reading of the counter takes about 50 */

/* Ends `cycles` after `from`; returns the last reading. */
static inline uint64_t fgb_spin(uint64_t from, uint64_t cycles)
{
	uint64_t now = from;

	while (now - from < cycles)
		now = fg_cycles();
	return now;
}

/* What a workload says of one operation. `choose` is called outside the section, `now` being a recent reading of the
 * cycle counter, and its answer names the operation to the other two. */
typedef uint64_t fgb_choose(struct fgb_thread *self, uint64_t now);
typedef struct fg_lock *fgb_lock_of(uint64_t choice);
typedef void fgb_section(struct fgb_thread *self, uint64_t choice);

/* Operations until the phase changes. The functions are known where this is called, and inline. `chooses` tells whether
 * `choose` takes time: that is part of the wait between two sections, not of the next operation.
 *
 * Counts an operation in the phase it began in: so a phase gains at its start what it loses at its end, also when one
 * operation takes as long as the phase. `released` is an ordered reading: with a plain one the processor would begin
 * to wait while it still fetches the lines of the section. */
static inline __attribute__((always_inline)) void fgb_operate(const struct fgb_run *run, uint32_t phase,
							      struct fgb_thread *self, bool chooses, fgb_choose *choose,
							      fgb_lock_of *lock_of, fgb_section *section)
{
	struct fgb_counts *counts = &self->counts[phase];
	uint64_t choice = choose(self, fg_cycles()), asked = fg_cycles(), acquired = 0, released;
	uint64_t ops = counts->ops, longest = counts->longest_cs;
	uint32_t gap = 1, left = 1, awake = run->hold_sleep_every;

	while (fg_load_relaxed(&run->phase) == phase) {
		struct fg_lock *lock = lock_of(choice);

		left--;
		fgi_lock(lock);
		if (!left)
			acquired = fg_cycles_ordered();
		section(self, choice);
		if (fg_unlikely(run->hold_sleep_ns) && --awake == 0) {
			fgi_nap(run->hold_sleep_ns);
			awake = run->hold_sleep_every;
		}
		fgi_unlock(lock);
		released = fg_cycles_ordered();
		fg_store_relaxed(&counts->ops, ++ops);
		if (released - asked > longest)
			longest = released - asked;
		if (!left) {
			fgb_record(&counts->wait, acquired - asked, gap);
			fgb_record(&counts->cs, released - asked, gap);
			fgb_record(&counts->hold, released - acquired, gap);
			counts->sampled++;
			gap = left = released - asked < FGB_LONG ? run->sample : 1;
		}
		choice = choose(self, released);
		asked = fgb_spin(released, run->cycles_between);
		if (chooses && !run->cycles_between)
			asked = fg_cycles();
	}
	counts->longest_cs = longest;
}

/* One operation of a workload that has a loop of its own: the three readings of the cycle counter. */
static inline void fgb_count(struct fgb_counts *counts, uint64_t asked, uint64_t acquired, uint64_t released)
{
	fg_store_relaxed(&counts->ops, counts->ops + 1);
	if (released - asked > counts->longest_cs)
		counts->longest_cs = released - asked;
	fgb_record(&counts->wait, acquired - asked, 1);
	fgb_record(&counts->cs, released - asked, 1);
	fgb_record(&counts->hold, released - acquired, 1);
	counts->sampled++;
}

__attribute__((noinline)) static void fgb_pairs(uint64_t n)
{
	static struct fg_lock lock __attribute__((aligned(FGB_ALONE)));

	while (n--) {
		fgi_lock(&lock);
		fgi_unlock(&lock);
	}
}

static const char *fgb_refusal(void)
{
#ifdef FGI_LOCK_HAS_REFUSAL
	return fgi_lock_refusal();
#else
	return NULL;
#endif
}
