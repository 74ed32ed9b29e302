/* SPDX-License-Identifier: GPL-2.0-only */
/* The preemptable ticket spinlock (Ouyang and Lange, VEE'13, section 4, Fig. 3 and 4) but for its lock word, for which
 * preemptable-ticket.h and preemptable-ticket-pv.h define
 *
 *   take_word(l)     take it if it is FREE; acquires
 *   compete(l, w)    take it, among all those that may (Fig. 3, lines 29 to 35)
 *   release_word(l)  release it
 *
 *   request   tickets drawn (the paper's num_request, in Fig. 3 `tail`)
 *   grant     releases so far (num_grant, `head`)
 *   lock      FREE or held: this word alone decides (I1)
 *
 * A waiter at position n = ticket - grant may try the word when n <= 0, or when n * tau have passed since the last
 * release; among those that may, the fastest wins.
 * Deviation: tau is 64 spins, the 2 us of section 4.2; Fig. 3 has 2^14 spins, half a millisecond here. */
#ifndef FLEXGUARD_PREEMPTABLE_H
#define FLEXGUARD_PREEMPTABLE_H

#include "lock.h"

struct lock {
	union {
		struct {
			union {
				struct {
					u16 request;
					u16 grant;
				};
				u32 tickets;
			};
			u32 lock;
		};
		u64 all;
	};
};

enum { FREE, HELD, HALTED };

static __always_inline bool take_word(struct lock *l);
static __always_inline void compete(struct lock *l, struct waiting *w);
static __always_inline void release_word(struct lock *l);

/* Fig. 3, lines 13 to 27. */
static __always_inline void await_position(struct lock *l, u16 ticket, u16 grant, struct waiting *w)
{
	u32 timeout = TAU_SPINS * (u16)(ticket - grant);
	u16 now;

	while ((s16)(ticket - (now = READ_ONCE(l->grant))) > 0) {
		if (now != grant) {
			grant = now;
			timeout = TAU_SPINS * (u16)(ticket - grant);
		}
		if (timeout-- == 0)
			break;
		if (stalled(w))
			count_stall(READ_ONCE(l->lock) != FREE);
		spin_once(w);
	}
}

static __always_inline void lock_take(struct lock *l) /* Fig. 3, lines 2 to 36 */
{
	u16 ticket = xadd(&l->request, 1), grant = READ_ONCE(l->grant);
	struct waiting w;

	if (likely(ticket == grant && take_word(l)))
		return;
	wait_begin(&w, max((s16)(ticket - grant), 0));
	await_position(l, ticket, grant, &w);
	compete(l, &w);
	wait_end(&w);
	count_order((s16)(ticket - READ_ONCE(l->grant)));
}

static __always_inline bool lock_is_locked(struct lock *l) /* Fig. 4, lines 1 to 4 */
{
	struct lock seen = {.all = READ_ONCE(l->all)};

	return seen.request != seen.grant || seen.lock != FREE;
}

static __always_inline bool lock_try(struct lock *l) /* Fig. 4, lines 6 to 22 */
{
	struct lock seen = {.all = READ_ONCE(l->all)}, taken = seen;

	if (seen.request != seen.grant || seen.lock != FREE)
		return false;
	taken.request++;
	taken.lock = HELD;
	return cmpxchg_acquire(&l->all, seen.all, taken.all) == seen.all;
}

static __always_inline void lock_drop(struct lock *l) /* Fig. 3, lines 38 to 41 */
{
	/* Only the holder writes it; a draw beside it is a locked instruction on two other bytes. */
	WRITE_ONCE(l->grant, (u16)(l->grant + 1));
	release_word(l);
}

static __always_inline bool lock_is_contended(struct lock *l)
{
	struct lock seen = {.all = READ_ONCE(l->all)};

	return (s16)(seen.request - seen.grant) > 1;
}

#endif
