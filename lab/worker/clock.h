/* SPDX-License-Identifier: MIT */
/* Cycles and nanoseconds. Both counters are read at either end of a measurement, so the cycle counter's frequency is
 * known as exactly as the measurement is long. */
#ifndef FGB_CLOCK_H
#define FGB_CLOCK_H

#include <stdint.h>
#include <time.h>

#include "runtime/arch/arch.h"

struct fgb_instant {
	uint64_t ns; /* CLOCK_MONOTONIC */
	uint64_t cycles;
};

static inline uint64_t fgb_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline struct fgb_instant fgb_now(void)
{
	return (struct fgb_instant){fgb_ns(), fg_cycles_ordered()};
}

static inline double fgb_ns_per_cycle(struct fgb_instant from, struct fgb_instant to)
{
	return (double)(to.ns - from.ns) / (double)(to.cycles - from.cycles);
}

#endif
