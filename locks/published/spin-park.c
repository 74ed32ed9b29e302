/* SPDX-License-Identifier: MIT */
/* Spin-then-park (section 2.2): busy-wait until a fixed bound, then block.
 *
 *   word       meaning                          taken by        released by
 *   FREE       nobody holds it
 *   HELD       held, nobody sleeps              CAS -> HELD     XCHG -> FREE
 *   CONTENDED  held, somebody may sleep         XCHG            XCHG -> FREE, wake one
 *
 * Waiting policy: SPIN_NS of test-and-test-and-set, then a futex; a thread that was woken tries once and sleeps again.
 * The bound is the heuristic that the paper objects to: too long for a preempted holder, too short for a running one.
 * I1  the word alone. I2  a waiter sleeps only while the word is CONTENDED, and takes it as such once it has slept: so
 *     each release that may leave a sleeper behind wakes one. I4  not kept: spinners and arrivals overtake sleepers,
 *     who are woken first come, first served. I5  exactly: taken and released inside windows.
 * Memory: the word; nothing per thread. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "runtime/arch/arch.h"
#include "runtime/futex.h"
#include "runtime/spin_budget.h"

struct fg_lock {
	uint32_t word;
	uint32_t unused[3];
};

enum { FREE = 0, HELD = 1, CONTENDED = 2 };

/* About the price of a park and a wake-up, the bound at which a wrong guess costs at most twice the right one (Karlin
 * et al. 1991). */
#define SPIN_NS 10000u

static inline bool fgi_trylock(struct fg_lock *l)
{
	return fg_load_relaxed(&l->word) == FREE && fgi_take_cas32(&l->word, HELD) == FREE;
}

static inline bool spin(struct fg_lock *l)
{
	uint64_t until = fgi_now_ns(CLOCK_MONOTONIC) + SPIN_NS;

	do {
		for (unsigned int turn = 0; turn < FGI_TURNS_PER_LOOK; turn++) {
			if (fgi_trylock(l))
				return true;
			fg_thread.spins++;
			fg_pause();
		}
	} while (fgi_now_ns(CLOCK_MONOTONIC) < until);
	return false;
}

__attribute__((noinline)) static int spin_then_park(struct fg_lock *l, const struct fgi_spin_budget *p)
{
	int woken = 0;

	if (spin(l))
		return 0;
	while (fgi_take_xchg32(&l->word, CONTENDED) != FREE) {
		if (woken == ETIMEDOUT)
			return ETIMEDOUT;
		woken = fgi_park(&l->word, CONTENDED, p);
	}
	return 0;
}

static inline void fgi_lock(struct fg_lock *l)
{
	if (!fg_likely(fgi_trylock(l)))
		spin_then_park(l, &FGI_SPIN_BUDGET(CLOCK_MONOTONIC, NULL));
}

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	return fgi_trylock(l) ? 0 : spin_then_park(l, &FGI_SPIN_BUDGET(clock, abs));
}

static inline void fgi_unlock(struct fg_lock *l)
{
	if (fg_unlikely(fgi_drop_xchg32(&l->word, FREE) == CONTENDED))
		fgi_futex_wake(&l->word, 1);
}
