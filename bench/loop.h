/* SPDX-License-Identifier: MIT */
/* The measured loops, compiled once per lock so that the lock inlines. CMake generates a unit for each:
 *
 *   #define FGI_LOCK_FILE "locks/tatas.c"     a lock of ours, or an adapter of bench/locks/
 *   #include "bench/loop.h"
 *
 * Time is read where it costs nothing. The wait between two sections is measured in cycles anyway: its first reading
 * is the end of one operation, its last the beginning of the next. Only "now I have the lock" needs a reading of its
 * own, inside the section, so only every run->sample-th operation takes it, and only those enter the histograms, each
 * for all operations since the one before. After a long one the next is timed too: that costs it nothing it would
 * notice, and where a lock has collapsed there are few operations and each is long. The longest time from asking to
 * having released is kept over all operations. What all this costs beyond the bare loop is in
 * docs/measurements/bench-harness.md. */
#include "bench/bench.h"
#include FGI_LOCK_FILE

static struct fg_lock fgb_lock __attribute__((aligned(FGB_ALONE)));
static struct fg_lock fgb_private_lock __attribute__((aligned(FGB_ALONE)));

#define FGB_LONG 100000 /* cycles; a reading of the counter takes about 50 */

/* Ends `cycles` after `from`; returns the last reading. */
static inline uint64_t fgb_spin(uint64_t from, uint64_t cycles)
{
	uint64_t now = from;

	while (now - from < cycles)
		now = fg_cycles();
	return now;
}

/* Increments every line. The first is read at the beginning and written at the end, so that whoever else is in the
 * section meanwhile leaves a trace: an increment is lost. */
static inline void fgb_section(const struct fgb_run *run)
{
	uint64_t first = run->data[0].value;

	fg_compiler_barrier();
	for (uint32_t i = 1; i < run->lines; i++)
		run->data[i].value++;
	if (run->section_cycles)
		fgb_spin(fg_cycles_ordered(), run->section_cycles);
	fg_compiler_barrier();
	run->data[0].value = first + 1;
}

/* Counts an operation in the phase it began in: so a phase gains at its start what it loses at its end, also when one
 * operation takes as long as the phase. `released` is an ordered reading: with a plain one the processor would begin
 * to wait while it still fetches the lines of the section. */
__attribute__((noinline)) static void fgb_shm(const struct fgb_run *run, uint32_t phase, struct fgb_counts *counts)
{
	uint64_t asked = fg_cycles(), acquired = 0, released, ops = 0, longest = 0;
	uint32_t gap = 1, left = 1;

	while (fg_load_relaxed(&run->phase) == phase) {
		left--;
		fgi_lock(&fgb_lock);
		if (!left)
			acquired = fg_cycles_ordered();
		fgb_section(run);
		fgi_unlock(&fgb_lock);
		released = fg_cycles_ordered();
		ops++;
		if (released - asked > longest)
			longest = released - asked;
		if (!left) {
			fgb_record(&counts->wait, acquired - asked, gap);
			fgb_record(&counts->cs, released - asked, gap);
			counts->sampled++;
			gap = left = released - asked < FGB_LONG ? run->sample : 1;
		}
		asked = fgb_spin(released, run->cycles_between);
	}
	counts->ops = ops;
	counts->longest_cs = longest;
}

__attribute__((noinline)) static void fgb_pairs(uint64_t n)
{
	while (n--) {
		fgi_lock(&fgb_private_lock);
		fgi_unlock(&fgb_private_lock);
	}
}

const struct fgb_loops fgb_loops = {fgb_shm, fgb_pairs};
