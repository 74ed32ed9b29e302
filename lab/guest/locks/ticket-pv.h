/* SPDX-License-Identifier: GPL-2.0-only */
/* The paravirtual ticket spinlock that both papers compare with ("pv-lock" of VEE'13, section 5.2 and Fig. 5; "PV TS"
 * of EuroSys'17, section 3.2 and Fig. 10). Its words are in tickets-pv.h.
 *
 * Waiting policy: spin for HALT_SPINS, then halt until one's turn has come; a release kicks the next ticket's virtual
 * CPU if any is halted. In order of tickets, so a preempted waiter stops all behind it, but they do not burn CPU. */
#include "tickets-pv.h"

static __always_inline u32 active_spins(u16 before)
{
	return HALT_SPINS;
}

static __always_inline void release_kick(struct lock *l, u16 serving)
{
	kick(&l->word, INT_MAX, 1u << serving % 32);
}
