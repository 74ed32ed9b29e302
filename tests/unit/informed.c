/* SPDX-License-Identifier: MIT */
/* When an informed spinlock draws a ticket. One thread takes the lock; at each spin of its waiting a script sees what
 * it has done, and plays the other threads and the monitor.
 *
 *   informed RULE    1: the lock has the rule for a stalled queue; 0: it is as published */
#include <sched.h>

#include "runtime/arch/arch.h"
#include "runtime/atomic.h"
#include "runtime/sandbox.h"

static void spin(void);

static inline void spin_by_yield(void)
{
	spin();
}

#define fg_pause spin
#define fgi_system_yield spin_by_yield
#include FGI_LOCK_FILE
#undef fg_pause
#undef fgi_system_yield

#include "runtime/clock.h"
#include "runtime/thread.h"
#include "tests/check.h"

#define SECOND UINT64_C(1000000000)

static struct fg_shared page = {.heartbeat_ns = INT64_MAX};
static struct fg_cpu cpus[FG_CPUS];
static struct fg_lock lock;
static bool rule;
static uint32_t spins, slices;
static void (*script)(void);

static void spin(void)
{
	spins++;
	script();
}

/* A slice as long as no test takes. */
static void next_slice(void)
{
	uint64_t end = fgi_now_ns(CLOCK_MONOTONIC) + 5 * SECOND;

	slices++;
	for (uint32_t cpu = 0; cpu < FG_CPUS; cpu++)
		fg_store_relaxed(&cpus[cpu].slice_end_ns, end + slices);
}

/* Takes the lock whose tickets from `serving` to `next` are those of others. Returns after how many spins. */
static uint32_t take(uint32_t serving, uint32_t next, uint32_t stalled, void (*others)(void))
{
	lock = (struct fg_lock){.next = next, .serving = serving, .forks = fgi_forks, .stalled = stalled};
	script = others;
	spins = slices = 0;
	next_slice();
	fgi_lock(&lock);
	CHECK_IS(lock.serving, next); /* it drew the ticket after theirs */
	CHECK_IS(lock.next, next + 1);
	fgi_unlock(&lock);
	CHECK_IS(lock.serving, next + 1);
	return spins;
}

static void never(void)
{
	CHECK(0, "waits for a free lock");
}

/* A million waiters need 6 s. Not capable: no ticket in this slice, but one in the next, capable or not (line 39). */
static void too_long_a_queue(void)
{
	CHECK_IS(lock.next, spins == 1 ? 1000000 : 1000001);
	next_slice();
	if (spins > 1)
		fg_store_release(&lock.serving, 1000000);
}

static void long_wait(void)
{
	CHECK_IS(lock.next, 3);
	CHECK_IS(lock.stalled, rule && spins > 16384 ? 3 : 0);
	if (spins == 20000)
		fg_store_release(&lock.serving, 2);
}

/* As published a ticket is drawn at once. With the rule in no slice before the others are served. */
static void stalled_queue(void)
{
	CHECK_IS(lock.next, rule ? 5 : 6);
	if (spins == 3)
		fg_store_release(&lock.serving, 5);
	next_slice();
}

int main(int argc, char **argv)
{
	rule = argc > 1 && atoi(argv[1]) != 0;
	check_watchdog(500);
	fgi_self();
	fgi_monitor_attach_cpus(&page, cpus);
	CHECK_IS(take(7, 7, 0, never), 0);
	CHECK_IS(take(0, 1000000, 0, too_long_a_queue), 2);
	CHECK_IS(take(0, 2, 0, long_wait), 20000);
	CHECK_IS(take(1, 5, 5, stalled_queue), 3);
	return 0;
}
