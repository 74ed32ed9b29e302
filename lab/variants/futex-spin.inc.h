/* SPDX-License-Identifier: MIT */
/* Footnote 4 of the FlexGuard paper: the pure blocking lock (locks/published/futex.inc.h) with a spin loop of
 * FGB_SPIN_CYCLES in front. The footnote tries 30 to 300,000 cycles and finds no bound that improves on POSIX. A worker
 * for each bound carries it; no interposer does.
 *
 * All else, I1 to I5 and memory, is as in locks/published/futex.inc.h. */
#define fgi_lock fgb_blocking_lock
#include "locks/published/futex.inc.h"
#undef fgi_lock

static inline void fgi_lock(struct fg_lock *l)
{
	uint64_t from;

	if (fg_likely(fgi_trylock(l)))
		return;
	from = fg_cycles();
	do {
		fgi_spin_once();
		if (fgi_trylock(l))
			return;
	} while (fg_cycles() - from < FGB_SPIN_CYCLES);
	fgb_blocking_lock(l);
}
