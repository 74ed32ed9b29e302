/* SPDX-License-Identifier: MIT */
/* Test-and-test-and-set: the spinlock of Listing 1, with the windows by which the Preemption Monitor sees its holder.
 *
 *   word   0 free, 1 held
 *
 * Waiting policy: spin, always; it collapses when threads outnumber hardware contexts.
 * I1  By the exchange. I4  Not kept: no order, no bound. I5  Exactly: taken and released inside windows (lines 8-10 and
 * 14-15).
 * Memory: the word; nothing per thread. */
#include "lock/lock.h"

struct fg_lock {
	uint32_t word;
	uint32_t unused[3];
};

static inline bool fgi_trylock(struct fg_lock *l)
{
	return fg_load_relaxed(&l->word) == 0 && fgi_take_xchg32(&l->word, 1) == 0;
}

static inline void fgi_lock(struct fg_lock *l)
{
	while (!fgi_trylock(l))
		fgi_spin_once();
}

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	return fgi_poll(l, clock, abs);
}

static inline void fgi_unlock(struct fg_lock *l)
{
	fgi_drop_store32(&l->word, 0);
}
