/* SPDX-License-Identifier: GPL-2.0-only */
/* Tickets whose waiters halt: what ticket-pv.h and oticket.h share. The file that includes this one defines
 *
 *   active_spins(before)         how long a waiter with so many tickets before its own spins
 *   release_kick(l, serving)   whom a release kicks if any virtual CPU halts
 *
 *   next      the next ticket to draw
 *   serving   the ticket that owns the lock; free if it equals `next`
 *   halted    virtual CPUs that halt, or are about to; in one word with `serving`, at which they halt
 *   owned     only in a kernel that counts: 1 while a virtual CPU has seen that it owns the lock
 *
 * Tickets stand for virtual CPUs in the bits of a kick, modulo 32: who is kicked in vain halts again. A waiter raises
 * `halted` before it looks at `serving` for the last time, and a release moves `serving` and reads `halted` by one
 * instruction, so that one of the two sees the other (I2). */
#ifndef FLEXGUARD_TICKETS_PV_H
#define FLEXGUARD_TICKETS_PV_H

#include "lock.h"

struct lock {
	union {
		struct {
			u16 next;
			u16 owned;
			union {
				struct {
					u16 halted;
					u16 serving;
				};
				u32 word;
			};
		};
		u64 all;
	};
};

#define SERVE_NEXT 0x10000u

static __always_inline u32 active_spins(u16 before);
static __always_inline void release_kick(struct lock *l, u16 serving);

static __always_inline void await_turn(struct lock *l, u16 ticket)
{
	struct waiting w;
	u32 spins = 0;
	u16 before;

	wait_begin(&w, (u16)(ticket - READ_ONCE(l->serving)));
	while ((before = (u16)(ticket - smp_load_acquire(&l->serving))) != 0) {
		u32 seen;

		if (stalled(&w))
			count_stall(READ_ONCE(l->owned));
		if (spins++ < active_spins(before)) {
			spin_once(&w);
			continue;
		}
		seen = xadd(&l->word, 1) + 1;
		if (seen >> 16 != ticket)
			halt(&w, &l->word, seen, 1u << ticket % 32);
		xadd(&l->word, -1);
		count_spin(&w); /* a stall is counted once, also if the halt ends early */
		spins = 0;
	}
	wait_end(&w);
}

static __always_inline void lock_take(struct lock *l)
{
	u16 ticket = xadd(&l->next, 1);

	if (unlikely(smp_load_acquire(&l->serving) != ticket))
		await_turn(l, ticket);
	if (COUNTING)
		WRITE_ONCE(l->owned, 1);
}

static __always_inline bool lock_try(struct lock *l)
{
	struct lock seen = {.all = READ_ONCE(l->all)}, taken = seen;

	if (seen.next != seen.serving)
		return false;
	taken.next++;
	if (COUNTING)
		taken.owned = 1;
	return cmpxchg_acquire(&l->all, seen.all, taken.all) == seen.all;
}

static __always_inline void lock_drop(struct lock *l)
{
	u32 before;

	if (COUNTING)
		WRITE_ONCE(l->owned, 0);
	before = xadd(&l->word, SERVE_NEXT);
	if (unlikely((u16)before))
		release_kick(l, (u16)((before >> 16) + 1));
}

static __always_inline bool lock_is_locked(struct lock *l)
{
	struct lock seen = {.all = READ_ONCE(l->all)};

	return seen.next != seen.serving;
}

static __always_inline bool lock_is_contended(struct lock *l)
{
	struct lock seen = {.all = READ_ONCE(l->all)};

	return (u16)(seen.next - seen.serving) > 1;
}

#endif
