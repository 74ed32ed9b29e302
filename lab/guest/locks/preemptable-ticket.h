/* SPDX-License-Identifier: GPL-2.0-only */
/* The preemptable ticket spinlock (Ouyang and Lange, VEE'13, section 4, Fig. 3 and 4). Its words and its tickets are in
 * preemptable.h.
 *
 * Waiting policy: spin, always: in order while all virtual CPUs run, and as in a test-and-set lock among those whose
 * timeout n * tau has passed. A preempted waiter costs the others tau, where in a ticket lock it costs a time slice; a
 * preempted holder costs the same in both. */
#include "preemptable.h"

static __always_inline bool take_word(struct lock *l)
{
	return xchg_acquire(&l->lock, HELD) == FREE;
}

static __always_inline void compete(struct lock *l, struct waiting *w)
{
	while (!take_word(l)) {
		if (stalled(w))
			count_stall(1);
		spin_once(w);
	}
}

static __always_inline void release_word(struct lock *l)
{
	xchg_release(&l->lock, FREE);
}
