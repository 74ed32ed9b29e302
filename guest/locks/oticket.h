/* SPDX-License-Identifier: GPL-2.0-only */
/* Oticket, the opportunistic ticket spinlock (Kashyap and others, "Opportunistic Spinlocks: Achieving Virtual Machine
 * Scalability in the Clouds", SIGOPS OSR 2016, after its description in EuroSys'17, section 3.2; "OT" in Fig. 10): the
 * paravirtual ticket spinlock whose waiters next to the holder spin for longer, so that fewer of them must be kicked.
 * Its words are in tickets-pv.h.
 *
 * Waiting policy: the NEAR waiters next in order spin NEAR_TURNS before they halt, the others HALT_TURNS / 4. A release
 * kicks the waiter whose turn it is, and the one that becomes near: it is awake when its turn comes.
 * Deviation: EuroSys'17 has no numbers; these are ours. */
#include "tickets-pv.h"

#define NEAR 2
#define NEAR_TURNS (16 * HALT_TURNS)

static __always_inline u32 spin_turns(u16 before)
{
	return before <= NEAR ? NEAR_TURNS : HALT_TURNS / 4;
}

static __always_inline void release_kick(struct lock *l, u16 serving)
{
	kick(&l->word, INT_MAX, 1u << serving % 32 | 1u << (u16)(serving + NEAR) % 32);
}
