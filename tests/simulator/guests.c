/* SPDX-License-Identifier: MIT */
/* Two levels: two guests of two virtual CPUs each, on a host of two CPUs (--machine far --cost guests=2 --cost
 * vcpus=2). The other guest burns its virtual CPUs.
 *
 *   fair     a guest's virtual CPUs have half of the host's time, each the same
 *   stops    the host takes a CPU from the holder of a spinlock of lab/guest, or from the waiter whose turn it is: for
 *            a slice nobody in the guest takes it, and alone the guest never waits so long */
#include "simulator/guest/spinlock.inc.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "worker/bench.h"
#include "worker/hogs.h"

#define RUN_NS 200000000ull

static struct {
	struct fg_lock lock __attribute__((aligned(64)));
	uint64_t last_ns, longest_gap_ns, sections, end_ns; /* the lock's */
	uint64_t cpu_ns[2];
} shared;

static uint64_t now_ns(void)
{
	return fgi_now_ns(CLOCK_MONOTONIC);
}

static void pin(uint64_t cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	assert(sched_setaffinity(0, sizeof(set), &set) == 0);
}

static void *burn(void *argument)
{
	uint64_t i = (uint64_t)(uintptr_t)argument;

	pin(i);
	while (now_ns() < shared.end_ns)
		;
	shared.cpu_ns[i] = fgi_now_ns(CLOCK_THREAD_CPUTIME_ID);
	return NULL;
}

static void *take_often(void *argument)
{
	pin((uint64_t)(uintptr_t)argument);
	for (uint64_t now = now_ns(); now < shared.end_ns;) {
		fgi_lock(&shared.lock);
		now = now_ns();
		if (shared.sections++ && now - shared.last_ns > shared.longest_gap_ns)
			shared.longest_gap_ns = now - shared.last_ns;
		for (uint64_t end = now + 20000; now < end;)
			now = now_ns();
		shared.last_ns = now;
		fgi_unlock(&shared.lock);
	}
	return NULL;
}

static void run_two(void *(*body)(void *))
{
	pthread_t threads[2];

	memset(&shared, 0, sizeof(shared));
	shared.end_ns = now_ns() + RUN_NS;
	for (uint64_t i = 0; i < 2; i++)
		assert(pthread_create(&threads[i], NULL, body, (void *)(uintptr_t)i) == 0);
	for (int i = 0; i < 2; i++)
		assert(pthread_join(threads[i], NULL) == 0);
}

static void print_shares(const char *when)
{
	printf("%s: shares of a CPU %.3f %.3f\n", when, (double)shared.cpu_ns[0] / RUN_NS,
	       (double)shared.cpu_ns[1] / RUN_NS);
}

static void fair(void)
{
	struct fgb_hogs hogs;

	run_two(burn);
	print_shares("alone");
	for (int i = 0; i < 2; i++)
		assert(shared.cpu_ns[i] > RUN_NS * 95 / 100);
	assert(fgb_hogs_start(&hogs, 2) == 0);
	run_two(burn);
	print_shares("beside the other guest");
	for (int i = 0; i < 2; i++)
		assert(shared.cpu_ns[i] > RUN_NS * 45 / 100 && shared.cpu_ns[i] < RUN_NS * 55 / 100);
}

static void print_gap(const char *when)
{
	printf("%s: %lu sections, the longest time between two %.3f ms\n", when, shared.sections,
	       (double)shared.longest_gap_ns * 1e-6);
}

static void stops(void)
{
	uint64_t alone;
	struct fgb_hogs hogs;

	run_two(take_often);
	print_gap("alone");
	assert(shared.longest_gap_ns < 100000);
	alone = shared.sections;
	assert(fgb_hogs_start(&hogs, 1) == 0); /* beside one virtual CPU: the other one runs on, and waits */
	run_two(take_often);
	print_gap("beside the other guest");
	assert(shared.longest_gap_ns > 1000000);
	assert(shared.sections < alone * 3 / 4);
	assert(!lock_is_locked(&shared.lock.of_guest));
}

int fgb_main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "fair") == 0)
		fair();
	else if (argc == 2 && strcmp(argv[1], "stops") == 0)
		stops();
	else
		return FGB_USAGE;
	puts("ok");
	return 0;
}
