/* SPDX-License-Identifier: MIT */
/* How long a waiter stays awake (sync/awake.h), by a clock of the test's: each reading takes it `step_ns` further. */
#include <sched.h>
#include <stdint.h>
#include <time.h>

#include "runtime/sandbox.h"

#define START_NS 1000000000u

static unsigned int yields, settled;
static uint64_t now_ns = START_NS, step_ns;

static void count_yield(void)
{
	yields++;
}

static void read_clock(clockid_t clock, struct timespec *t)
{
	(void)clock;
	now_ns += step_ns;
	*t = (struct timespec){(time_t)(now_ns / 1000000000u), (long)(now_ns % 1000000000u)};
}

static void count_settle(void)
{
	settled++;
}

#define fgi_system_yield count_yield
#define fgi_clock_read read_clock
#define fgi_foreign_settle count_settle
#include "sync/awake.c"
#undef fgi_system_yield
#undef fgi_clock_read
#undef fgi_foreign_settle

#include "tests/check.h"

static struct fg_shared monitor = {.heartbeat_ns = INT64_MAX};
static int event;

/* The event comes at that look; 0: never. */
static unsigned int looks, comes_at;

static bool ready(const void *unused)
{
	(void)unused;
	return ++looks == comes_at;
}

/* As a thread that knows nothing, a long time later. */
static void forget(uint64_t step)
{
	memset(histories, 0, sizeof(histories));
	now_ns += 1000 * (uint64_t)START_NS;
	step_ns = step;
	comes_at = 0;
}

static bool stays(struct fgi_awake *a, const void *object, const struct timespec *abs)
{
	looks = yields = 0;
	fgi_awake_begin(a, object);
	return fgi_awake_stay(a, ready, NULL, FGI_DEADLINE(CLOCK_REALTIME, abs));
}

/* A wait for what does not come while the waiter is awake. Returns how often it looked. */
static unsigned int misses(const void *object)
{
	struct fgi_awake a;

	CHECK(!stays(&a, object, NULL));
	fgi_awake_end(&a, true, 0);
	return looks;
}

/* A wait for what comes at the first look. */
static unsigned int meets(const void *object)
{
	struct fgi_awake a;
	bool met;

	comes_at = 1;
	met = stays(&a, object, NULL);
	fgi_awake_end(&a, !met, 0);
	comes_at = 0;
	return looks;
}

/* 20 us of its own time, 10 without a monitor, and one look more when they are over. What lasts longer than 2 us was
 * another thread's. */
static void its_time(void)
{
	forget(1000);
	CHECK_IS(misses(&event), 20 + 1);
	CHECK_IS(yields, 18);
	forget(100000);
	CHECK_IS(misses(&event), 10 + 1);
	fgi_monitor_attach(&fgi_no_monitor);
	forget(1000);
	CHECK_IS(misses(&event), 10 + 1);
	fgi_monitor_attach(&monitor);
}

static void the_event_comes(void)
{
	struct fgi_awake a;

	for (comes_at = 1; comes_at <= 21; comes_at++) {
		unsigned int at = comes_at;

		forget(1000);
		comes_at = at;
		CHECK(stays(&a, &event, NULL), "at look %u", at);
		CHECK_IS(looks, at);
	}
}

/* Something critical is preempted, or the deadline is reached: it looks once. */
static void there_is_no_time(void)
{
	struct fgi_awake a;

	forget(1000);
	monitor.num_preempted_cs = 1;
	CHECK_IS(misses(&event), 1);
	monitor.num_preempted_cs = 0;
	forget(1000);
	CHECK(!stays(&a, &event, &(struct timespec){1, 0}));
	CHECK_IS(looks, 1);
}

/* Another thread kept the CPU: no waiter of the process stays awake for 50 times as long. That is in no history. */
static void taken(void)
{
	const uint64_t long_ns = FGI_AWAKE_TAKEN_NS + 1;

	forget(long_ns);
	CHECK_IS(misses(&event), 1 + 1);
	step_ns = 0;
	now_ns += FGI_AWAKE_TAKEN_TIMES * long_ns - 1;
	CHECK_IS(misses(&event), 0);
	CHECK_IS(misses(&looks), 0);
	now_ns++;
	step_ns = 1000;
	CHECK_IS(misses(&event), 20 + 1);
}

/* The process was stopped for an hour. Waiters stay awake again after 5 s, not after two days. */
static void stopped(void)
{
	forget(3600000000000u);
	CHECK_IS(misses(&event), 1 + 1);
	step_ns = 0;
	now_ns += 5000000000u - 1;
	CHECK_IS(misses(&event), 0);
	now_ns++;
	step_ns = 1000;
	CHECK_IS(misses(&event), 20 + 1);
}

/* A wait of no object: the thread stays awake after each miss, and the misses are in no history. */
static void learns_nothing(void)
{
	struct fgi_awake a;

	forget(1000);
	history_of(NULL)->sleeps_left = 1; /* of an object that shares it */
	for (unsigned int i = 0; i < 3; i++) {
		CHECK(!stays(&a, NULL, NULL));
		CHECK_IS(looks, 20 + 1);
	}
	history_of(NULL)->sleeps_left = 0; /* where the linker puts the event decides whether that shares it, too */
	CHECK_IS(misses(&event), 20 + 1);
	CHECK_IS(misses(&event), 0);
	CHECK(!stays(&a, NULL, NULL));
	CHECK_IS(looks, 20 + 1);
}

/* After each miss the thread sleeps at once for ever more waits, up to 255. */
static void misses_add_up(void)
{
	forget(1000);
	for (unsigned int at_once = 3; at_once <= 255; at_once = at_once * 4 + 3) {
		CHECK_IS(misses(&event), 20 + 1);
		for (unsigned int i = 0; i < at_once; i++)
			CHECK_IS(misses(&event), 0);
	}
	CHECK_IS(misses(&event), 20 + 1);
	CHECK_IS(history_of(&event)->misses, MOST_MISSES);
	for (unsigned int i = 0; i < 255; i++)
		CHECK_IS(misses(&event), 0);
	CHECK_IS(meets(&event), 1);
	CHECK_IS(misses(&event), 20 + 1); /* one met: 7, then 8 at most */
	for (unsigned int i = 0; i < 255; i++)
		CHECK_IS(misses(&event), 0);
}

/* What comes while the thread sleeps, but would have come while it was awake, lowers the count, and so what is left. */
static void comes_soon_after_all(void)
{
	struct fgi_awake a;

	forget(0);
	step_ns = 1000;
	misses(&event); /* 2: three at once */
	fgi_awake_begin(&a, &event);
	fgi_awake_end(&a, true, a.begin_ns + FGI_AWAKE_NS); /* too late */
	CHECK_IS(history_of(&event)->misses, 2);
	fgi_awake_end(&a, true, a.begin_ns + FGI_AWAKE_NS - 1);
	CHECK_IS(history_of(&event)->misses, 1);
	CHECK_IS(misses(&event), 0);
	CHECK_IS(misses(&event), 20 + 1);
	CHECK_IS(history_of(&event)->misses, 3);
	fgi_awake_end(&a, false, 0);
	fgi_awake_end(&a, false, 0);
	fgi_awake_end(&a, false, 0);
	fgi_awake_end(&a, false, 0);
	CHECK_IS(history_of(&event)->misses, 0);
}

/* Of each object of its own. */
static void objects(void)
{
	static int many[4096];
	unsigned int others = 0;

	forget(1000);
	misses(&event);
	for (size_t i = 0; i < sizeof(many) / sizeof(many[0]); i++)
		others += history_of(&many[i]) != history_of(&event);
	CHECK(others > 3000 && others < 4096, "%u", others);
	for (size_t i = 0; i < sizeof(many) / sizeof(many[0]); i++)
		if (history_of(&many[i]) != history_of(&event)) {
			CHECK_IS(misses(&many[i]), 20 + 1);
			return;
		}
}

/* Locks that others have released are no longer counted by the time it waits. */
static void settles(void)
{
	struct fgi_awake a;

	settled = 0;
	fgi_awake_begin(&a, &event);
	CHECK_IS(settled, 0);
	fgi_foreign_notes = 1;
	fgi_awake_begin(&a, &event);
	fgi_foreign_notes = 0;
	CHECK_IS(settled, 1);
}

/* A waiter with a real-time policy does not offer its CPU: it goes to sleep. Returns false where that cannot be set. */
static bool policies(void)
{
	const int real_time[] = {SCHED_FIFO, SCHED_RR, SCHED_FIFO | SCHED_RESET_ON_FORK};
	struct sched_param usual = {0}, lowest = {.sched_priority = 1};

	for (size_t i = 0; i < sizeof(real_time) / sizeof(real_time[0]); i++) {
		if (sched_setscheduler(0, real_time[i], &lowest) != 0)
			return false;
		forget(1000);
		CHECK_IS(misses(&event), 3 + 1);
		CHECK_IS(yields, 0);
		CHECK_IS(history_of(&event)->misses, 0);
	}
	CHECK(sched_setscheduler(0, SCHED_BATCH, &usual) == 0);
	forget(1000);
	CHECK_IS(misses(&event), 20 + 1);
	return true;
}

int main(void)
{
	check_watchdog(500);
	fgi_monitor_attach(&monitor);
	its_time();
	the_event_comes();
	there_is_no_time();
	taken();
	stopped();
	learns_nothing();
	misses_add_up();
	comes_soon_after_all();
	objects();
	settles();
	return policies() ? 0 : 77;
}
