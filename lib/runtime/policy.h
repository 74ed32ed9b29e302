/* SPDX-License-Identifier: MIT */
/* What this thread's policy means to a waiter: whether it may yield, and whether it comes before others. */
#ifndef FGI_POLICY_H
#define FGI_POLICY_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/sandbox.h"

/* Has this thread a real-time policy? Then a yield lets no thread of lower priority run, and under SCHED_DEADLINE it
 * gives the rest of the period away. */
static inline bool fgi_real_time(void)
{
	long policy = fgi_optional_call(SYS_sched_getscheduler, 0, 0, 0);

	return policy > 0 && (policy & ~SCHED_RESET_ON_FORK) != SCHED_OTHER &&
	       (policy & ~SCHED_RESET_ON_FORK) != SCHED_BATCH && (policy & ~SCHED_RESET_ON_FORK) != SCHED_IDLE;
}

/* By which the kernel orders the threads that sleep in a futex: 0 for most, 1 to 99 with a real-time policy, 100 under
 * SCHED_DEADLINE. */
static inline uint8_t fgi_priority(void)
{
	struct sched_param param = {0};

	if (!fgi_real_time())
		return 0;
	(void)fgi_optional_call(SYS_sched_getparam, 0, (long)&param, 0);
	return param.sched_priority > 0 ? (uint8_t)param.sched_priority : 100;
}

#endif
