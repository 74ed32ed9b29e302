/* SPDX-License-Identifier: MIT */
/* Time as nanoseconds since the clock's epoch, and its conversion to what the kernel's calls take. */
#ifndef FGI_CLOCK_H
#define FGI_CLOCK_H

#include <stdint.h>
#include <time.h>

#include "runtime/system.h"

static inline uint64_t fgi_now_ns(clockid_t clock)
{
	struct timespec t;

	fgi_clock_read(clock, &t); /* the vDSO: no system call */
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline struct timespec fgi_timespec(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
}

#endif
