/* SPDX-License-Identifier: GPL-2.0-only */
/* Oticket, the opportunistic ticket spinlock (Kashyap and others, "Opportunistic Spinlocks: Achieving Virtual Machine
 * Scalability in the Clouds", SIGOPS OSR 2016, after its description in EuroSys'17, section 3.2; "OT" in Fig. 10): the
 * paravirtual ticket spinlock whose waiters next to the holder spin for longer, so that fewer of them must be kicked.
 * Its words are in tickets-pv.h.
 *
 * Waiting policy: the NEAR waiters next in order spin NEAR_SPINS before they halt, the others HALT_SPINS / 4. A release
 * kicks the waiter whose turn it is, and the one that becomes near: it is awake when its turn comes.
 * Deviation: EuroSys'17 has no numbers; these are ours. */
#include "tickets-pv.h"

#define NEAR 2
#define NEAR_SPINS (16 * HALT_SPINS)

static __always_inline u32 active_spins(u16 before)
{
	return before <= NEAR ? NEAR_SPINS : HALT_SPINS / 4;
}

static __always_inline void release_kick(struct lock *l, u16 serving)
{
	kick(&l->word, INT_MAX, 1u << serving % 32 | 1u << (u16)(serving + NEAR) % 32);
}
