/* SPDX-License-Identifier: MIT */
/* What a waiter of the default lock decides: may it take the free lock, does it yield, has it spun enough? One thread
 * asks for states that it makes up. */
#include "tests/unit/counted_lock.h"

/* How many looks at the free and demanded lock a waiter takes until it may take it. */
static uint32_t looks_until_taken(struct wait w)
{
	uint32_t looks = 0;

	while (!may_take(&lock, &w, DEMAND, 0)) {
		w.looked = true;
		CHECK(++looks < 1000, "never");
	}
	return looks;
}

static void test_demand_is_respected(void)
{
	begin(NULL);
	CHECK(looks_until_taken((struct wait){0}) == FGI_MANY + 1);
	CHECK(looks_until_taken((struct wait){.looked = true, .hot = true}) == FGI_MANY);
	CHECK(looks_until_taken((struct wait){.looked = true, .head = true}) == 0);
	finish();
}

/* May a waiter take the free lock that has moved since its last look? */
static bool may_take_moved(uint32_t hot, struct wait w)
{
	lock.waiters = hot;
	w.looked = true;
	return may_take(&lock, &w, 0, 1);
}

static void test_hot_lock_is_left_to_its_owner(void)
{
	begin(NULL);
	CHECK(may_take_moved(0, (struct wait){0}));
	CHECK(!may_take_moved(FGI_HOT, (struct wait){0}));
	CHECK(!may_take_moved(FGI_HOT, (struct wait){.hot = true}));
	CHECK(!may_take_moved(FGI_HOT, (struct wait){.hot = true, .woken = true}));
	lock.waiters = 0;
	finish();
}

/* How often a waiter that looks at the clock beside this monitor yields its CPU. */
static uint32_t yields_of(const struct fg_shared *page, struct wait w)
{
	uint32_t counted;

	begin(page);
	w.now = w.awake = w.moved_at = fgi_now_ns(CLOCK_MONOTONIC);
	give_way(&lock, &w, fgi_self());
	counted = yields;
	finish();
	return counted;
}

/* Between many waiters that yield, one that does would wait for all of them, with the lock free and demanded. */
static void test_head_waiter_keeps_its_cpu(void)
{
	CHECK(yields_of(&quiet, (struct wait){0}) == 1);
	CHECK(yields_of(&quiet, (struct wait){.head = true}) == 0);
	CHECK(yields_of(&preempted, (struct wait){.head = true}) == 1, "the owner may be queued behind it");
}

/* Beside another process that waits for the CPU a waiter does not yield, for a while. */
static void test_keeps_its_cpu_from_others(void)
{
	uint64_t before;

	for (uint32_t i = 0; i < FG_CPUS; i++)
		idle_cpus[i].stay = FG_STAY_US;
	CHECK(yields_of(&idle, (struct wait){0}) == 1, "it went to sleep");
	for (uint32_t i = 0; i < FG_CPUS; i++)
		idle_cpus[i].stay = FG_STAY_WAITS;
	before = fgi_now_ns(CLOCK_MONOTONIC);
	CHECK(yields_of(&idle, (struct wait){0}) == 0);
	CHECK(fgi_others_compete_until >= before + FGI_SOME * FGI_LONG_WAIT_NS);
	CHECK(fgi_others_compete_until <= fgi_now_ns(CLOCK_MONOTONIC) + FGI_SOME * FGI_LONG_WAIT_NS);
}

/* Without a monitor: the time that a yield takes does not count as spun, a slice says that other processes compete. */
static void test_yields_unmonitored(void)
{
	struct wait w;

	CHECK(yields_of(NULL, (struct wait){0}) == 1);
	CHECK(yields_of(NULL, (struct wait){.head = true}) == 0);
	begin(NULL);
	w = (struct wait){0};
	w.now = w.awake = w.moved_at = fgi_now_ns(CLOCK_MONOTONIC);
	yield_ns = 2 * FGI_SLICE_US * 1000;
	give_way(&lock, &w, fgi_self());
	yield_ns = 0;
	CHECK(yields == 1, "%u yields", yields);
	CHECK(w.awake - w.now >= 2 * FGI_SLICE_US * 1000);
	CHECK(fgi_others_compete_until >= w.awake + FGI_COMPETE_NS);
	w.now = fgi_others_compete_until - 1;
	w.awake = w.moved_at = w.now;
	give_way(&lock, &w, fgi_self());
	CHECK(yields == 1, "others compete");
	finish();
}

/* Where others compete: does a waiter sleep whose last sleep ended so long ago? While the lock is free none counts. */
static bool sleeps_beside_others(uint64_t ns)
{
	struct fgi_deadline never = FGI_NEVER;
	struct wait w;
	uint64_t slept;

	begin(&idle);
	w = (struct wait){.deadline = &never, .now = fgi_now_ns(CLOCK_MONOTONIC)};
	w.awake = w.moved_at = w.now;
	fgi_others_compete_until = UINT64_MAX;
	memo()->slept = slept = w.now - ns;
	give_way(&lock, &w, fgi_self());
	CHECK_IS(memo()->slept, slept);
	lock.word = fgi_self();
	give_way(&lock, &w, fgi_self());
	lock.word = 0;
	fgi_others_compete_until = 0;
	slept = memo()->slept;
	finish();
	return slept > w.now - ns && w.woken;
}

static void test_sleeps_before_its_slice_ends(void)
{
	CHECK(!sleeps_beside_others(FGI_LONG_WAIT_NS));
	CHECK(sleeps_beside_others(FGI_LONG_WAIT_NS + 1));
}

/* Without a monitor: does a waiter that has been awake for so long park? */
static bool parks_after(uint32_t ns)
{
	struct wait w = {.now = 1000000 + ns, .awake = 1000000};

	begin(NULL);
	give_way(&lock, &w, 0);
	finish();
	return w.woken;
}

static void test_spins_for_a_while(void)
{
	CHECK(!parks_after(FGI_SPIN_UNMONITORED_NS - 1));
	CHECK(parks_after(FGI_SPIN_UNMONITORED_NS));
}

int main(void)
{
	check_watchdog(500);
	test_demand_is_respected();
	test_hot_lock_is_left_to_its_owner();
	test_head_waiter_keeps_its_cpu();
	test_keeps_its_cpu_from_others();
	test_yields_unmonitored();
	test_sleeps_before_its_slice_ends();
	test_spins_for_a_while();
	return 0;
}
