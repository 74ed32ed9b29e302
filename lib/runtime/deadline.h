/* SPDX-License-Identifier: MIT */
/* When a wait ends: an absolute time on one of the two clocks that a futex knows, or never. What takes a deadline from
 * a program checks it once (fgi_is_deadline); all else takes it as right. */
#ifndef FGI_DEADLINE_H
#define FGI_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct fgi_deadline {
	clockid_t clock;
	const struct timespec *time; /* NULL: never */
};

#define FGI_DEADLINE(clock_, time_) ((struct fgi_deadline){.clock = (clock_), .time = (time_)})
#define FGI_NEVER FGI_DEADLINE(CLOCK_MONOTONIC, NULL)

/* glibc refuses another clock, and nanoseconds that are none, with EINVAL. */
static inline bool fgi_is_clock(clockid_t clock)
{
	return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC;
}

static inline bool fgi_is_time(const struct timespec *time)
{
	return time->tv_nsec >= 0 && time->tv_nsec < 1000000000;
}

static inline bool fgi_is_deadline(struct fgi_deadline until)
{
	return fgi_is_clock(until.clock) && (!until.time || fgi_is_time(until.time));
}

bool fgi_past_deadline(const struct fgi_deadline *until); /* false: never */

/* The time left until the deadline, which must not be `never`; 0: it has passed. */
uint64_t fgi_remaining_ns(const struct fgi_deadline *until);

#endif
