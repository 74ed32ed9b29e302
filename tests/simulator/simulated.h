/* SPDX-License-Identifier: MIT */
/* What the programs share that run under the simulator in place of the worker. */
#ifndef SIMULATED_H
#define SIMULATED_H

#include <assert.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "runtime/clock.h"
#include "worker/bench.h"

struct simulated_case {
	const char *name;
	void (*run)(void);
};

static inline uint64_t now_ns(void)
{
	return fgi_now_ns(CLOCK_MONOTONIC);
}

static inline void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	assert(sched_setaffinity(0, sizeof(set), &set) == 0);
	assert(sched_getcpu() == cpu);
}

/* Runs the case that the command line names. */
static inline int run_case(const struct simulated_case *cases, size_t count, int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < count; i++)
		if (strcmp(argv[1], cases[i].name) == 0) {
			cases[i].run();
			puts("ok");
			return 0;
		}
	fprintf(stderr, "usage: %s CASE\n", argv[0]);
	return FGB_USAGE;
}

#endif
