/* SPDX-License-Identifier: MIT */
/* fg-handover: how long a cache line takes from one CPU to another and back, halved: the least that a hand-over costs.
 * Between the first two CPUs that this process may use. Prints the nanoseconds.
 *
 * To be asked before a comparison on a virtual machine: the host may have put the two on one core (tens of ns) or on
 * two (hundreds), and may change its mind. Exit status: 0, 1 the system refused, 77 there is one CPU only. */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "runtime/atomic.h"

enum { WARM_UP = 200, ROUND_TRIPS = 20000 };

static uint32_t line __attribute__((aligned(128)));
static int cpus[2];

static int pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set);
}

static void await(uint32_t value)
{
	while (fg_load_acquire(&line) != value)
		;
}

static void *other(void *unused)
{
	(void)unused;
	if (pin(cpus[1]) != 0)
		return NULL;
	for (uint32_t i = 0; i < WARM_UP + ROUND_TRIPS; i++) {
		await(2 * i + 1);
		fg_store_release(&line, 2 * i + 2);
	}
	return NULL;
}

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(void)
{
	cpu_set_t allowed;
	pthread_t thread;
	double began = 0;
	int found = 0;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
		perror("fg-handover: sched_getaffinity");
		return 1;
	}
	for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
		if (CPU_ISSET(cpu, &allowed))
			cpus[found++] = cpu;
	if (found < 2) {
		fputs("fg-handover: needs two CPUs\n", stderr);
		return 77;
	}
	if (pin(cpus[0]) != 0 || pthread_create(&thread, NULL, other, NULL) != 0) {
		fputs("fg-handover: cannot run on two CPUs\n", stderr);
		return 1;
	}
	for (uint32_t i = 0; i < WARM_UP + ROUND_TRIPS; i++) {
		if (i == WARM_UP)
			began = now_ns();
		fg_store_release(&line, 2 * i + 1);
		await(2 * i + 2);
	}
	printf("%.1f\n", (now_ns() - began) / ROUND_TRIPS / 2);
	pthread_join(thread, NULL);
	return 0;
}
