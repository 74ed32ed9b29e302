/* SPDX-License-Identifier: MIT */
/* For tests whose threads and processes have to compete for one CPU. */
#ifndef FG_TESTS_ONE_CPU_H
#define FG_TESTS_ONE_CPU_H

#include <sched.h>

#include "tests/check.h"

/* The calling thread, and those that it starts, run on the first CPU that it may use. */
static inline void pin_to_first_cpu(void)
{
	cpu_set_t allowed, one;
	int cpu = 0;

	CHECK(sched_getaffinity(0, sizeof(allowed), &allowed) == 0);
	while (!CPU_ISSET(cpu, &allowed))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	CHECK(sched_setaffinity(0, sizeof(one), &one) == 0, "%m");
}

#endif
