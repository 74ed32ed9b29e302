/* SPDX-License-Identifier: MIT */
/* Whether a waiter may yield. */
#ifndef FGI_POLICY_H
#define FGI_POLICY_H

#include <errno.h>
#include <sched.h>
#include <stdbool.h>

/* Has this thread a real-time policy? Then a yield lets no thread of lower priority run, and under SCHED_DEADLINE it
 * gives the rest of the period away. */
static inline bool fgi_real_time(void)
{
	int saved = errno, policy = sched_getscheduler(0);

	errno = saved;
	return policy > 0 && (policy & ~SCHED_RESET_ON_FORK) != SCHED_OTHER &&
	       (policy & ~SCHED_RESET_ON_FORK) != SCHED_BATCH && (policy & ~SCHED_RESET_ON_FORK) != SCHED_IDLE;
}

#endif
