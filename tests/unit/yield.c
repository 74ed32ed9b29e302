/* SPDX-License-Identifier: MIT */
/* When the interposer's sched_yield sleeps, and when it makes the system call, beside pages of this test's own making.
 * The functions that it finds in glibc are the test's: one that counts. */
#include <errno.h>
#include <sched.h>
#include <sys/prctl.h>
#include <threads.h>

#include "interpose/real.h"
#include "runtime/clock.h"
#include "runtime/monitor.h"
#include "tests/check.h"
#include "tests/unit/vforked.h"

#define ENOUGH 1000

static struct fg_shared page;
static struct fg_cpu cpus[FG_CPUS];
static int calls;

static uint16_t turn_us; /* while a yield makes the system call, another process has the CPU for so long; 0: none has */
static bool it_waits;

static void all_cpus(uint16_t stay, uint16_t turns)
{
	for (uint32_t cpu = 0; cpu < FG_CPUS; cpu++) {
		cpus[cpu].stay = stay;
		cpus[cpu].process_switches += turns;
	}
}

static int count_call(void)
{
	calls++;
	if (turn_us)
		all_cpus(turn_us | (it_waits ? FG_STAY_WAITS : 0), 1);
	return 0;
}

static int no_control(int option, ...)
{
	CHECK_IS(option, PR_SET_NO_NEW_PRIVS);
	return 0;
}

struct fgi_real fgi_real_table = {.yield = count_call, .process_control = no_control};
int fgi_real_found = 1;

void fgi_real_find(void)
{
}

/* Of so many yields. Each other one takes as long as a sleep. */
static int system_calls(int n)
{
	calls = 0;
	errno = ENOTTY;
	for (int i = 0; i < n; i++) {
		uint64_t before = fgi_now_ns(CLOCK_MONOTONIC), took;
		int calls_before = calls;

		if (i % 2)
			thrd_yield();
		else
			ok(sched_yield());
		took = fgi_now_ns(CLOCK_MONOTONIC) - before;
		CHECK(calls > calls_before || took >= 50000, "a sleep of %lu ns", (unsigned long)took);
	}
	CHECK_IS(errno, ENOTTY);
	return calls;
}

/* From a page on which nothing was learnt lately: does any of ten yields sleep? */
static bool sleeps(uint16_t turn, bool waits)
{
	static const struct timespec long_ago = {0, 110000000};

	nanosleep(&long_ago, NULL);
	fg_store_relaxed(&page.heartbeat_ns, fgi_now_ns(CLOCK_MONOTONIC));
	turn_us = turn;
	it_waits = waits;
	return system_calls(10) < 10;
}

static void real_time(void)
{
	struct sched_param param = {.sched_priority = 1};

	if (sched_setscheduler(0, SCHED_FIFO, &param) != 0) {
		CHECK_IS(errno, EPERM);
		fprintf(stderr, "no real-time policy may be set: that part is left out\n");
		return;
	}
	CHECK(!sleeps(3000, true));
	param.sched_priority = 0;
	ok(sched_setscheduler(0, SCHED_BATCH, &param));
	CHECK(sleeps(3000, true));
}

static int begin_sandbox(void *unused)
{
	(void)unused;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

int main(int argc, char **argv)
{
	bool off = argc > 1 && strcmp(argv[1], "off") == 0;

	check_watchdog(500);
	CHECK(!sleeps(3000, true)); /* no monitor */
	fgi_monitor_attach_cpus(&page, cpus);
	if (off) {
		CHECK(!sleeps(3000, true));
		return 0;
	}
	CHECK(sleeps(3000, true));
	if (argc > 1 && strcmp(argv[1], "vforked") == 0) {
		in_vfork_child(begin_sandbox);
		CHECK(sleeps(3000, true)); /* the child's sandbox is not the parent's */
		return 0;
	}
	if (argc > 1) {
		ok(begin_sandbox(NULL));
		CHECK(!sleeps(3000, true));
		return 0;
	}
	CHECK(sleeps(1000, true));
	CHECK(!sleeps(999, true));   /* it yields, too */
	CHECK(!sleeps(3000, false)); /* it has gone to sleep */
	all_cpus(3000 | FG_STAY_WAITS, 1);
	CHECK(!sleeps(0, false)); /* a turn of earlier */

	CHECK(sleeps(3000, true));
	all_cpus(3000, 0);
	turn_us = 0;
	CHECK_IS(system_calls(ENOUGH), ENOUGH); /* none waits any longer */
	real_time();

	CHECK(sleeps(3000, true));
	fg_store_relaxed(&page.heartbeat_ns, 0); /* the monitor has ended */
	CHECK_IS(system_calls(10), 10);
	return 0;
}
