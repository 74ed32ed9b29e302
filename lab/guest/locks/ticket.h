/* SPDX-License-Identifier: GPL-2.0-only */
/* The ticket spinlock, the baseline of both papers (VEE'13, section 3; EuroSys'17, section 2.1).
 *
 *   next      the next ticket to draw
 *   serving   the ticket that owns the lock; the lock is free if it equals `next`
 *   owned     what tickets.h says
 *
 * Waiting policy: spin, in order of tickets. A preempted waiter stops all behind it. */
#include "lock.h"

struct lock {
	union {
		struct {
			u16 next;
			u16 serving;
		};
		u32 tickets;
	};
	u32 owned;
};

static __always_inline void waited(struct lock *l, u32 spins)
{
}

#include "tickets.h"

static __always_inline void lock_take(struct lock *l)
{
	take_in_order(l);
}
