/* SPDX-License-Identifier: MIT */
/* Stands in for the Preemption Monitor, as an adversary: the counter goes up and down at random, for moments shorter
 * than a hand-over and for longer than a slice; now and then the heartbeat stops, as if the monitor had died. What it
 * says of the ends of slices is unknown, past, near and far, in turns. Threads that it calls asleep may run, and CPUs
 * idle that do not exist. */
#ifndef FG_TESTS_HOSTILE_MONITOR_H
#define FG_TESTS_HOSTILE_MONITOR_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "runtime/monitor.h"
#include "runtime/spin_budget.h"
#include "tests/check.h"

static struct {
	struct fg_shared page __attribute__((aligned(FG_PAGE)));
	struct fg_cpu cpus[FG_CPUS];
	pthread_t thread;
	uint32_t stop;
	uint64_t flips, deaths;
} hostile;

static inline uint64_t hostile_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static inline void hostile_cpus(struct fg_shared *page, struct fg_cpu *cpus, uint64_t r, uint64_t now)
{
	const uint64_t ends[] = {0, now - 1000000, now + r % 20000, now + 4000000};

	fg_store_relaxed(&page->tick_ns, r % 3 ? 1000000 : 0);
	for (unsigned int cpu = 0; cpu < FG_CPUS; cpu++)
		fg_store_relaxed(&cpus[cpu].slice_end_ns, ends[(r >> 8) % 4]);
	fg_store_relaxed(&page->cpus_seen, (uint32_t)(r >> 40));
	fg_store_relaxed(&cpus[r % FG_CPUS].idle, (uint32_t)(r >> 32) % 2);
}

/* Some threads have these names. */
static inline void hostile_sleepers(struct fg_shared *page, uint32_t first, uint64_t r)
{
	for (uint32_t name = first, end = name + 64; name < end; name++, r >>= 1)
		fg_store_relaxed(&page->off_cpu[fg_off_cpu_place(name)], r & 1 ? name | (uint32_t)(r & 2) << 30 : 0);
}

/* Changes the mode, and returns for how long it lasts: three in four a moment, the fourth no time at all. */
static inline struct timespec hostile_flip(struct fg_shared *page, struct fg_cpu *cpus, uint64_t r,
					   uint32_t first_sleeper)
{
	uint64_t now = fgi_now_ns(CLOCK_MONOTONIC);

	if (r % 512 == 1) { /* dead, with whatever counter it had */
		fg_store_relaxed(&page->heartbeat_ns, now - FG_HEARTBEAT_DEAD_NS - 1);
		hostile.deaths++;
	} else {
		fg_store_relaxed(&page->heartbeat_ns, now);
	}
	fg_store_relaxed(&page->num_preempted_cs, (uint32_t)(r >> 20) % 3);
	if (r % 4 == 2)
		hostile_cpus(page, cpus, r, now);
	if (r % 4 == 1)
		hostile_sleepers(page, first_sleeper, r >> 8);
	fg_store_relaxed(&hostile.flips, hostile.flips + 1);
	if (r % 4 == 0)
		return (struct timespec){0};
	return (struct timespec){.tv_nsec = (long)(r % 8 ? r % 60000 : r % 3000000)};
}

static void *hostile_run(void *unused)
{
	uint64_t seed = 88172645463325252u;

	(void)unused;
	while (!fg_load_relaxed(&hostile.stop)) {
		struct timespec nap =
			hostile_flip(&hostile.page, hostile.cpus, hostile_random(&seed), (uint32_t)getpid());

		if (nap.tv_nsec)
			clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
	}
	return NULL;
}

static inline void hostile_start(void)
{
	hostile.page.heartbeat_ns = fgi_now_ns(CLOCK_MONOTONIC);
	fgi_monitor_attach_cpus(&hostile.page, hostile.cpus);
	hostile.thread = check_thread(hostile_run, NULL);
}

/* Whether the mode has changed often enough for a test to end. */
static inline bool hostile_seen(void)
{
	return fg_load_relaxed(&hostile.flips) > 100;
}

static inline void hostile_stop(void)
{
	fg_store_relaxed(&hostile.stop, 1);
	check_join(hostile.thread);
	printf("mode changes: %lu, deaths of the monitor: %lu\n", (unsigned long)hostile.flips,
	       (unsigned long)hostile.deaths);
}

#endif
