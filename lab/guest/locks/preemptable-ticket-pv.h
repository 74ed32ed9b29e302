/* SPDX-License-Identifier: GPL-2.0-only */
/* The paravirtual preemptable ticket spinlock (Ouyang and Lange, VEE'13, section 5.2): preemptable-ticket.h, but a
 * waiter that has spun on the lock word for HALT_SPINS halts.
 *
 *   request, grant   as in preemptable-ticket.h
 *   lock             FREE, HELD, or HALTED: held, and virtual CPUs may halt at this word
 *
 * Waiting policy: as there, then halt until the next release. A release that finds HALTED kicks every halted virtual
 * CPU, for any of them may be the one that the tickets would let in next. Only a release ends HALTED (I2).
 * Deviation: the word is taken by compare-and-swap; the paper's exchange would wipe out HALTED. */
#include "preemptable.h"

static __always_inline bool take_word(struct lock *l)
{
	return cmpxchg_acquire(&l->lock, FREE, HELD) == FREE;
}

static __always_inline void compete(struct lock *l, struct waiting *w)
{
	u32 spins = 0;

	while (READ_ONCE(l->lock) != FREE || !take_word(l)) {
		if (stalled(w))
			count_stall(1);
		spin_once(w);
		if (++spins < HALT_SPINS)
			continue;
		spins = 0;
		if (cmpxchg_relaxed(&l->lock, HELD, HALTED) != FREE)
			halt(w, &l->lock, HALTED, EVERYBODY);
	}
}

static __always_inline void release_word(struct lock *l)
{
	if (unlikely(xchg_release(&l->lock, FREE) == HALTED))
		kick(&l->lock, INT_MAX, EVERYBODY);
}
