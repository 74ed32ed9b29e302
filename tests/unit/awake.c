/* SPDX-License-Identifier: MIT */
/* A waiter that stays awake offers its CPU. One with a real-time policy does not: it goes to sleep. */
#include <sched.h>

static unsigned int yields;

static int count_yield(void)
{
	yields++;
	return 0;
}
#define sched_yield count_yield
#include "sync/awake.c"
#undef sched_yield

#include "runtime/monitor.h"
#include "tests/check.h"

static const struct fg_shared quiet = {.heartbeat_ns = INT64_MAX};
static int event;

static bool never(const void *unused)
{
	(void)unused;
	return false;
}

/* A wait for what does not come. Returns whether it stayed awake for its time. */
static bool waits(void)
{
	struct fgi_awake awake;

	yields = 0;
	fgi_awake_begin(&awake, &event);
	CHECK(!fgi_awake_stay(&awake, never, NULL, CLOCK_MONOTONIC, NULL));
	return awake.stayed;
}

int main(void)
{
	const int policies[] = {SCHED_FIFO, SCHED_RR, SCHED_FIFO | SCHED_RESET_ON_FORK};
	struct sched_param usual = {0}, lowest = {.sched_priority = 1};

	check_watchdog(60);
	fgi_monitor_attach(&quiet);
	while (!waits()) /* another thread had the CPU for long: no waiter stays awake for some time */
		;
	CHECK(yields > 1, "%u yields", yields);
	for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
		if (sched_setscheduler(0, policies[i], &lowest) != 0)
			return 77; /* not root */
		CHECK(!waits() && yields == 0, "policy %d: %u yields", policies[i], yields);
	}
	CHECK(sched_setscheduler(0, SCHED_BATCH, &usual) == 0);
	while (!waits())
		;
	CHECK(yields > 1, "%u yields", yields);
	return 0;
}
