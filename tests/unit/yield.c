/* SPDX-License-Identifier: MIT */
/* When the interposer's sched_yield sleeps, and when it makes the system call, beside pages of this test's own making.
 * The functions that it finds in glibc are the test's: one that counts. */
#include <errno.h>
#include <sched.h>
#include <threads.h>

#include "interpose/real.h"
#include "runtime/clock.h"
#include "runtime/monitor.h"
#include "tests/check.h"

#define ENOUGH 1000

static struct fg_shared page __attribute__((aligned(FG_PAGE)));
static int calls;

static int count_call(void)
{
	calls++;
	return 0;
}

struct fgi_real fgi_real_table = {.yield = count_call};
int fgi_real_found = 1;

void fgi_real_find(void)
{
}

static void other_processes_wait(bool do_they)
{
	for (uint32_t cpu = 0; cpu < FG_CPUS; cpu++)
		page.process_switch[cpu % FG_SWITCH_LINES][cpu / FG_SWITCH_LINES].stay =
			do_they ? FG_STAY_WAITS | 3000 : 3000;
}

/* Of so many yields, and how long the shortest took. */
static int system_calls(int n, uint64_t *shortest_ns)
{
	*shortest_ns = UINT64_MAX;
	calls = 0;
	errno = ENOTTY;
	for (int i = 0; i < n; i++) {
		uint64_t before = fgi_now_ns(CLOCK_MONOTONIC), took;

		if (i % 2)
			thrd_yield();
		else
			ok(sched_yield());
		took = fgi_now_ns(CLOCK_MONOTONIC) - before;
		*shortest_ns = took < *shortest_ns ? took : *shortest_ns;
	}
	CHECK_IS(errno, ENOTTY);
	return calls;
}

static void real_time(void)
{
	struct sched_param param = {.sched_priority = 1};
	uint64_t shortest;

	if (sched_setscheduler(0, SCHED_FIFO, &param) != 0) {
		CHECK_IS(errno, EPERM);
		fprintf(stderr, "no real-time policy may be set: that part is left out\n");
		return;
	}
	CHECK_IS(system_calls(ENOUGH, &shortest), ENOUGH);
	param.sched_priority = 0;
	ok(sched_setscheduler(0, SCHED_BATCH, &param));
	CHECK_IS(system_calls(10, &shortest), 0);
}

int main(int argc, char **argv)
{
	bool off = argc > 1 && strcmp(argv[1], "off") == 0;
	uint64_t shortest;

	check_watchdog(20);
	other_processes_wait(true);
	CHECK_IS(system_calls(ENOUGH, &shortest), ENOUGH); /* no monitor */

	fg_store_relaxed(&page.heartbeat_ns, fgi_now_ns(CLOCK_MONOTONIC));
	fgi_monitor_attach(&page);
	if (off) {
		CHECK_IS(system_calls(ENOUGH, &shortest), ENOUGH);
		return 0;
	}
	CHECK_IS(system_calls(10, &shortest), 0);
	CHECK(shortest >= 50000, "a sleep of %lu ns", (unsigned long)shortest);
	other_processes_wait(false);
	CHECK_IS(system_calls(ENOUGH, &shortest), ENOUGH);
	other_processes_wait(true);
	real_time();

	fg_store_relaxed(&page.heartbeat_ns, 0); /* the monitor has ended */
	CHECK_IS(system_calls(ENOUGH, &shortest), ENOUGH);
	return 0;
}
