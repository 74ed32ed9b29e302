/* SPDX-License-Identifier: MIT */
#ifndef FGB_MUST_SLEEP_H
#define FGB_MUST_SLEEP_H

#include "lock/lock.h"

/* With FGB_SPINS_ALWAYS waiters spin, as if the monitor said nothing and there was no bound: for comparison. */
#ifndef FGB_SPINS_ALWAYS
#define FGB_SPINS_ALWAYS 0
#endif

/* A waiter has looked once more. Must it sleep? A critical section is preempted, or the bound of
 * runtime/spin_budget.h or the deadline has passed. */
static inline bool must_sleep(struct fgi_spin_budget *p)
{
	if (FGB_SPINS_ALWAYS)
		return p->deadline.time && fgi_deadline_reached(p);
	return fgi_must_park(p);
}

#endif
