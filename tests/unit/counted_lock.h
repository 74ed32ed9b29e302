/* SPDX-License-Identifier: MIT */
/* The default lock with a longer LONG_WAIT, endless sleeps, counted wake-ups and yields; the pages of some monitors;
 * the lock of a test. */
#ifndef FG_TESTS_COUNTED_LOCK_H
#define FG_TESTS_COUNTED_LOCK_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/futex.h"
#include "runtime/sandbox.h"

static uint32_t wakes, woken, yields;
static uint32_t yield_ns;    /* a yield takes at least so long */
static bool somebody_sleeps; /* a wake-up wakes a thread, it says */

static inline void yield_and_count(void)
{
	__atomic_fetch_add(&yields, 1, __ATOMIC_RELAXED);
	if (yield_ns)
		fgi_nap(yield_ns);
	fgi_system_yield();
}

/* Counts the lock's wake-ups, and the threads that they wake. */
static inline int wake_and_count(uint32_t *word, int n)
{
	int number = fgi_futex_wake(word, n);

	__atomic_fetch_add(&wakes, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&woken, (uint32_t)number, __ATOMIC_RELAXED);
	return somebody_sleeps ? 1 : number;
}

/* Long enough for a test to see what a waiter does before a LONG_WAIT has passed. */
#define FGI_LONG_WAIT_NS 20000000u
/* Longer than any test: a waiter without a clock that is not woken hangs, and one that sleeps goes on sleeping. */
#define FGI_LONGEST_SLEEP_NS 1000000000000u
#define fgi_futex_wake wake_and_count
#define fgi_system_yield yield_and_count
#include "tests/unit/crowd.h"
#undef fgi_system_yield
#undef fgi_futex_wake

#define GIVES_UP_US (4 * FGI_LONG_WAIT_NS / 1000)
#define FLAG_SETS 8

static struct fg_lock lock;

static const struct fg_shared quiet = {.heartbeat_ns = INT64_MAX};
static const struct fg_shared preempted = {.heartbeat_ns = INT64_MAX, .num_preempted_cs = 1};
static const struct fg_shared idle = {.heartbeat_ns = INT64_MAX, .cpus_seen = 1};
static struct fg_cpu idle_cpus[FG_CPUS];

static inline uint32_t flag_set(int i)
{
	return (i & 1 ? NEEDY : 0) | (i & 2 ? DEMAND : 0) | (i & 4 ? PARKED : 0);
}

static void attach(const struct fg_shared *page)
{
	if (page != &idle) {
		fgi_monitor_attach(page);
		return;
	}
	idle_cpus[0].idle = 1;
	fgi_cpu_set[0] |= 1;
	fgi_monitor_attach_cpus(page, idle_cpus);
}

static void begin(const struct fg_shared *page)
{
	lock = (struct fg_lock){0};
	*fgi_pace_of(&lock) = (struct fgi_pace){0};
	*memo() = (struct memo){0};
	fg_store_relaxed(&fgi_others_compete_until, 0);
	wakes = woken = yields = 0;
	somebody_sleeps = false;
	attach(page);
}

static void finish(void)
{
	check_lock_works(&lock);
	fgi_monitor_attach(NULL);
}

#endif
