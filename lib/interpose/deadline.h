/* SPDX-License-Identifier: MIT */
/* Which clocks and times a wait can have; glibc refuses others with EINVAL. */
#ifndef FGI_INTERPOSE_DEADLINE_H
#define FGI_INTERPOSE_DEADLINE_H

#include <stdbool.h>
#include <time.h>

static inline bool fgi_is_clock(clockid_t clock)
{
	return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC;
}

static inline bool fgi_is_time(const struct timespec *abs)
{
	return abs->tv_nsec >= 0 && abs->tv_nsec < 1000000000;
}

#endif
