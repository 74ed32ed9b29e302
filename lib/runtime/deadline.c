/* SPDX-License-Identifier: MIT */
#include "runtime/deadline.h"

#include "runtime/system.h"

uint64_t fgi_remaining_ns(const struct fgi_deadline *until)
{
	struct timespec t;
	int64_t seconds, ns;

	if (until->time->tv_sec < 0)
		return 0;
	fgi_clock_read(until->clock, &t);
	seconds = until->time->tv_sec - t.tv_sec;
	ns = until->time->tv_nsec - t.tv_nsec;
	if (seconds > 1000000000)
		seconds = 1000000000;
	ns += seconds * 1000000000;
	return seconds < -1 || ns < 0 ? 0 : (uint64_t)ns;
}

bool fgi_past_deadline(const struct fgi_deadline *until)
{
	struct timespec t;

	if (!until->time)
		return false;
	fgi_clock_read(until->clock, &t);
	return t.tv_sec > until->time->tv_sec || (t.tv_sec == until->time->tv_sec && t.tv_nsec >= until->time->tv_nsec);
}
