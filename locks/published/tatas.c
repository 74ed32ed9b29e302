/* SPDX-License-Identifier: MIT */
/* Test-and-test-and-set: the spinlock of Listing 1, with the windows that let the Preemption Monitor see its holder.
 *
 *   word   0 free, 1 held
 *
 * Waiting policy: spin, always; it collapses when threads outnumber hardware contexts. I1 by the XCHG; I4 not kept: a
 * test-and-set lock has no order. I5: taken and released inside windows (lines 8-10 and 14-15). */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "runtime/arch/arch.h"
#include "runtime/spin_budget.h"
#include "runtime/thread.h"

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
