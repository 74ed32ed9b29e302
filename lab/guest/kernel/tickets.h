/* SPDX-License-Identifier: GPL-2.0-only */
/* Tickets whose waiters spin in order: what ticket.h and tickets-informed.h share. The file that includes this one
 * defines before that
 *
 *   struct lock       with `next` and `serving`, both in the word `tickets`, and `owned`: in a kernel that counts, 1
 *                     from the moment a virtual CPU has seen that it owns the lock
 *   waited(l, spins)  called at each spin of a waiter that holds a ticket */
#ifndef FLEXGUARD_TICKETS_H
#define FLEXGUARD_TICKETS_H

static __always_inline void take_in_order(struct lock *l)
{
	u16 ticket = xadd(&l->next, 1);
	struct waiting w;

	if (unlikely(smp_load_acquire(&l->serving) != ticket)) {
		wait_begin(&w, (u16)(ticket - READ_ONCE(l->serving)));
		while (smp_load_acquire(&l->serving) != ticket) {
			if (stalled(&w))
				count_stall(READ_ONCE(l->owned));
			waited(l, w.spins);
			spin_once(&w);
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

#endif
