/* SPDX-License-Identifier: GPL-2.0-only */
/* The ticket spinlock, the baseline of both papers (VEE'13, section 3; EuroSys'17, section 2.1).
 *
 *   next      the next ticket to draw
 *   serving   the ticket that owns the lock; the lock is free if it equals `next`
 *   owned     only in a kernel that counts: 1 from the moment a virtual CPU has seen that it owns the lock
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

static __always_inline void lock_take(struct lock *l)
{
	u16 ticket = xadd(&l->next, 1);
	struct waiting w;

	if (unlikely(smp_load_acquire(&l->serving) != ticket)) {
		wait_begin(&w, (u16)(ticket - READ_ONCE(l->serving)));
		while (smp_load_acquire(&l->serving) != ticket) {
			if (stalled(&w))
				count_stall(READ_ONCE(l->owned));
			turn(&w);
		}
		wait_end(&w);
	}
	if (COUNTING)
		WRITE_ONCE(l->owned, 1);
}

static __always_inline bool lock_try(struct lock *l)
{
	u32 tickets = READ_ONCE(l->tickets);

	/* Both tickets at once: `next` alone may have come round while this virtual CPU was preempted. */
	if ((u16)tickets != tickets >> 16)
		return false;
	if (cmpxchg_acquire(&l->tickets, tickets, (tickets & 0xffff0000) | (u16)(tickets + 1)) != tickets)
		return false;
	if (COUNTING)
		WRITE_ONCE(l->owned, 1);
	return true;
}

static __always_inline void lock_drop(struct lock *l)
{
	if (COUNTING)
		WRITE_ONCE(l->owned, 0);
	smp_store_release(&l->serving, (u16)(l->serving + 1));
}

static __always_inline bool lock_is_locked(struct lock *l)
{
	u32 tickets = READ_ONCE(l->tickets);

	return (u16)tickets != tickets >> 16;
}

static __always_inline bool lock_is_contended(struct lock *l)
{
	u32 tickets = READ_ONCE(l->tickets);

	return (u16)(tickets - (tickets >> 16)) > 1;
}
