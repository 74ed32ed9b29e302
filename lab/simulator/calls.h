/* SPDX-License-Identifier: MIT */
/* What libc and the kernel answer to a simulated thread: the linker sends the calls here (CMakeLists.txt). */
#ifndef FGS_CALLS_H
#define FGS_CALLS_H

#include <time.h>

#include "simulator/engine.h"

static inline uint64_t fgs_now_ns(void)
{
	return FGS_EPOCH_NS + fgs_here->now / FGS_NS;
}

/* The virtual time that an absolute one stands for. */
static inline fgs_ps fgs_time_of(const struct timespec *t)
{
	uint64_t ns = (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;

	return ns > FGS_EPOCH_NS ? (ns - FGS_EPOCH_NS) * FGS_NS : 0;
}

/* When the first simulated thread is ready: those that constructors have asked for follow. Or they do not, in the child
 * of a fork, which has its own. */
void fgs_start_early_threads(void);
void fgs_forget_early_threads(void);

/* Sleeps until then, and as long as timers are late. */
void fgs_sleep_until(fgs_ps when);

#endif
