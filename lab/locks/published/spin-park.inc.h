/* SPDX-License-Identifier: MIT */
/* Spin-then-park (section 2.2): busy-wait up to a fixed bound, then block.
 *
 *   word       meaning                          taken by                 released by
 *   FREE       free
 *   HELD       held, no thread sleeps           compare-and-swap         exchange -> FREE
 *   CONTENDED  held, a thread may sleep         exchange                 exchange -> FREE, wake one
 *
 * Waiting policy: SPIN_NS of test-and-test-and-set, then a futex. A thread that was woken tries once and sleeps again.
 * The bound is the heuristic that the paper objects to: too long if the holder is preempted, too short if it runs.
 * I1  The word alone. I2  A waiter sleeps only while the word is CONTENDED, and takes it as such once it has slept, so
 *     each release that may leave a sleeper behind wakes one. I4  Not kept: spinning and arriving threads overtake
 *     sleeping ones, which are woken first come, first served. I5  Exactly: taken and released inside windows.
 * Memory: the word; nothing per thread. */
#include "lock/lock.h"

struct fg_lock {
	uint32_t word;
	uint32_t unused[3];
};

enum { FREE = 0, HELD = 1, CONTENDED = 2 };

/* About the price of a park and a wake-up: at this bound a wrong guess costs at most twice the right one (Karlin et al.
 * 1991). Section 2.2 speaks of about a context switch; LiTL has 2,700 PAUSEs, "9 us". */
#define SPIN_NS 10000u

static inline bool fgi_trylock(struct fg_lock *l)
{
	return fg_load_relaxed(&l->word) == FREE && fgi_take_cas32(&l->word, HELD) == FREE;
}

static inline bool spin(struct fg_lock *l, const struct fgi_spin_budget *p)
{
	uint64_t until = fgi_now_ns(CLOCK_MONOTONIC) + SPIN_NS;

	do {
		for (unsigned int spin = 0; spin < FGI_SPINS_PER_LOOK; spin++) {
			if (fgi_trylock(l))
				return true;
			fgi_spin_once();
		}
	} while (fgi_now_ns(CLOCK_MONOTONIC) < until && !fgi_past_deadline(p));
	return false;
}

__attribute__((noinline)) static int spin_then_park(struct fg_lock *l, const struct fgi_spin_budget *p)
{
	int woken = 0;

	if (spin(l, p))
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
		spin_then_park(l, &FGI_NO_DEADLINE);
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
