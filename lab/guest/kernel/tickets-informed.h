/* SPDX-License-Identifier: GPL-2.0-only */
/* What the informed spinlocks share (I-Spinlock: Teabe and others, EuroSys'17, section 4 and Fig. 5): a ticket lock at
 * which a virtual CPU draws a ticket only if it can be through before its time slice ends.
 *
 *   capable  iff  end of the slice - now  >=  (tickets drawn and not yet served + 1) * csd      (equations 1 and 2)
 *
 * One that is not waits for its next slice (await_next_slice, in which the two forms differ), then draws a ticket
 * whether it is capable or not (Fig. 5, line 39). The end of the slice is the monitor's forecast; without one every
 * virtual CPU is capable, and this is a ticket lock.
 *
 *   next, serving   the tickets
 *   stalled         with INFORMED_STALL_SPINS: the tickets before this one are stalled; it means nothing outside of
 *                   ]serving, next]. Without: 0
 *   owned           what tickets.h says
 *
 * As published, a queue can stall: once the host has taken the CPU from a virtual CPU with a ticket, all behind it spin
 * through their slices. A file that defines INFORMED_STALL_SPINS has a rule against it, which the paper does not have,
 * as locks/parts/informed.h, the same lock for threads: a waiter that has waited for so many spins declares the tickets
 * drawn so far stalled, and nobody draws another until they are served.
 *
 * Deviations: the time is the host's clock in ns, where Fig. 5 reads the cycle counter. trylock ignores the slice. */
#ifndef FLEXGUARD_TICKETS_INFORMED_H
#define FLEXGUARD_TICKETS_INFORMED_H

#include "lock.h"

struct lock {
	union {
		struct {
			union {
				struct {
					u16 next;
					u16 serving;
				};
				u32 tickets;
			};
			u16 stalled;
			u16 owned;
		};
		u64 all;
	};
};

#define CSD_NS 6000 /* section 4.1: 2^14 cycles, 6 us */

#ifndef INFORMED_STALL_SPINS
#define INFORMED_STALL_SPINS 0 /* as published: no rule */
#endif

static __always_inline void waited(struct lock *l, u32 spins)
{
	if (INFORMED_STALL_SPINS && spins == INFORMED_STALL_SPINS)
		WRITE_ONCE(l->stalled, READ_ONCE(l->next));
}

#include "tickets.h"

static __always_inline void await_next_slice(struct waiting *w, u64 slice, u64 end);

static __always_inline bool is_stalled(struct lock seen)
{
	return INFORMED_STALL_SPINS && (u16)(seen.stalled - seen.serving - 1) < (u16)(seen.next - seen.serving);
}

/* Fig. 5, lines 15 to 38. */
static __always_inline void await_capability(struct lock *l)
{
	struct lock seen = {.all = READ_ONCE(l->all)};
	u64 slice = flexguard_slice(), now, end;
	struct waiting w;

	if (slice == 0)
		return;
	now = flexguard_now();
	end = flexguard_slice_end(slice, now);
	if (likely(end >= now + ((u16)(seen.next - seen.serving) + 1) * CSD_NS && !is_stalled(seen)))
		return;
	COUNT(incapable, 1);
	wait_begin(&w, 0);
	count_resumed(&w);
	if (end < now + ((u16)(seen.next - seen.serving) + 1) * CSD_NS)
		await_next_slice(&w, slice, end);
	while (seen.all = READ_ONCE(l->all), is_stalled(seen))
		spin_once(&w);
	count_resumed(&w); /* it has drawn no ticket yet: losing the CPU here stops nobody */
	wait_end(&w);
}

static __always_inline void lock_take(struct lock *l)
{
	await_capability(l);
	take_in_order(l);
}

#endif
