/* SPDX-License-Identifier: MIT */
/* Test-and-set: the simplest spinlock (section 2.1.2), every look at the word is an XCHG.
 *
 *   word   0 free, 1 held
 *
 * Waiting policy: spin, always, writing: each waiter takes the cache line for itself in every turn, from the holder
 * too. It collapses when threads outnumber hardware contexts, and is slow before that. tatas.c reads first.
 * I1 by the XCHG. I4 not kept: no order, no bound. I5 exactly: taken and released inside windows.
 * Memory: the word; nothing per thread. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "runtime/arch/arch.h"
#include "runtime/spin_budget.h"

struct fg_lock {
	uint32_t word;
	uint32_t unused[3];
};

static inline bool fgi_trylock(struct fg_lock *l)
{
	return fgi_take_xchg32(&l->word, 1) == 0;
}

static inline void fgi_lock(struct fg_lock *l)
{
	while (!fgi_trylock(l)) {
		fg_thread.spins++;
		fg_pause();
	}
}

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	struct fgi_spin_budget p = FGI_SPIN_BUDGET(clock, abs);

	while (!fgi_trylock(l)) {
		if (fgi_deadline_reached(&p))
			return ETIMEDOUT;
		fg_thread.spins++;
		fg_pause();
	}
	return 0;
}

static inline void fgi_unlock(struct fg_lock *l)
{
	fgi_drop_store32(&l->word, 0);
}
