/* SPDX-License-Identifier: MIT */
/* Whether a lock is hot (lock/default/pace.h), by clocks and counts that are made up: a lock costs so much from one
 * acquisition to the next when it is not hot, and so much when it is. */
#include "lock/default/pace.h"

#include <string.h>

#include "tests/check.h"

#define MS 1000000ull
/* Once in so many ns the other is tried at least. */
#define TRY_AGAIN ((uint64_t)2 * FGI_FEW * FGI_MANY * FGI_LONG_WAIT_NS)

struct simulated {
	uint32_t ops, waiters;
	uint64_t now, spent; /* spent: since the last acquisition */
	uint32_t cost[2];    /* ns from one acquisition to the next: of the lock when it is not hot, and when it is */
	uint32_t seed;
	bool unmonitored;
};

static struct simulated simulate(uint64_t now, uint32_t cold, uint32_t hot)
{
	memset(fgi_paces, 0, sizeof(fgi_paces));
	return (struct simulated){.waiters = fgi_waiters_none(), .now = now, .cost = {cold, hot}, .seed = 4711};
}

static void pass(struct simulated *s, uint64_t ns)
{
	uint32_t cost = s->cost[fgi_hot(s->waiters)];

	s->now += ns;
	s->spent += ns;
	s->ops += (uint32_t)(s->spent / cost);
	s->spent %= cost;
}

static bool measure(struct simulated *s)
{
	fgi_pace_measure(s, &s->ops, &s->waiters, s->now, !s->unmonitored);
	return fgi_hot(s->waiters);
}

/* For `ns`: how many of 1000 samples find the lock hot. Acquisitions vary by a tenth, samples by more. */
static uint32_t hot_for(struct simulated *s, uint64_t ns)
{
	const uint64_t end = s->now + ns;
	uint64_t samples = 0, hot = 0;

	while (s->now < end) {
		uint64_t r = random_from(&s->seed);

		pass(s, 500 + r % 7000);
		s->spent += r / 8192 % (s->cost[0] / 10 + 1);
		hot += measure(s);
		samples++;
	}
	CHECK(samples > 0);
	return (uint32_t)(1000 * hot / samples);
}

static const uint64_t starts[] = {1, 5 * TRY_AGAIN - 1000, (1ull << 32) - 20 * MS, 3600000 * MS + 12345};

#define STARTS (sizeof(starts) / sizeof(starts[0]))

static void test_faster_when_hot(void)
{
	const uint32_t costs[][2] = {{120, 60}, {300, 100}, {300, 200}, {550, 300}};

	for (size_t i = 0; i < STARTS * 4; i++) {
		struct simulated s = simulate(starts[i / 4], costs[i % 4][0], costs[i % 4][1]);
		uint64_t began = s.now;
		uint32_t share;

		while (!fgi_hot(s.waiters) && s.now < began + MS)
			hot_for(&s, 1000);
		CHECK(s.now < began + MS, "%u ns, %u when hot: not hot after 1 ms", s.cost[0], s.cost[1]);
		share = hot_for(&s, 300 * MS);
		CHECK(share >= 900, "%u ns, %u when hot: hot in %u of 1000", s.cost[0], s.cost[1], share);
	}
}

static void test_not_faster_when_hot(void)
{
	const uint32_t costs[][2] = {{60, 120}, {100, 300}, {200, 300}, {300, 550}, {500, 2000}, {200, 200}};

	for (size_t i = 0; i < STARTS * 6; i++) {
		struct simulated s = simulate(starts[i / 6], costs[i % 6][0], costs[i % 6][1]);
		uint32_t share;

		hot_for(&s, 2 * TRY_AGAIN);
		share = hot_for(&s, 300 * MS);
		CHECK(share <= 100, "%u ns, %u when hot: hot in %u of 1000", s.cost[0], s.cost[1], share);
	}
}

static void test_slow(void)
{
	const uint32_t costs[][2] = {{700, 100}, {5000, 100}, {100000, 50000}, {900000, 1000}};

	for (size_t i = 0; i < STARTS * 4; i++) {
		struct simulated s = simulate(starts[i / 4], costs[i % 4][0], costs[i % 4][1]);

		CHECK_IS(hot_for(&s, 300 * MS), 0);
	}
}

/* What was right when it was measured need not stay so: the lock follows within two tries. */
static void test_tries_again(void)
{
	for (size_t i = 0; i < STARTS; i++) {
		struct simulated s = simulate(starts[i], 200, 300);

		for (int turn = 0; turn < 3; turn++) {
			hot_for(&s, 2 * TRY_AGAIN);
			CHECK(hot_for(&s, 100 * MS) <= 100);
			s.cost[1] = 80;
			hot_for(&s, 2 * TRY_AGAIN);
			CHECK(hot_for(&s, 100 * MS) >= 900);
			s.cost[1] = 300;
		}
		s.cost[1] = 80;
		hot_for(&s, 2 * TRY_AGAIN);
		s.cost[0] = 900; /* slow by now, and slow when hot, too */
		s.cost[1] = 800;
		hot_for(&s, 2 * TRY_AGAIN);
		CHECK_IS(hot_for(&s, 300 * MS), 0);
	}
}

static bool is_known(const struct simulated *s)
{
	return fgi_pace(s, false) || fgi_pace(s, true);
}

/* What is known of a lock does not outlive it. It does not stay hot in a time in which it was hardly acquired. */
static void test_forgets(void)
{
	struct simulated s = simulate(1, 300, 100);

	hot_for(&s, MS);
	CHECK(fgi_hot(s.waiters) && is_known(&s));
	pass(&s, 4 * FGI_LONG_WAIT_NS);
	CHECK(measure(&s) && is_known(&s), "it was acquired all the time");
	s.now += 4 * FGI_LONG_WAIT_NS;
	s.ops += 10;
	CHECK(!measure(&s), "it was hardly acquired");
	hot_for(&s, MS);
	CHECK(fgi_hot(s.waiters) && is_known(&s));
	s.now += 80 * 60 * 1000 * MS; /* the time of a measurement is modulo 2^43 */
	s.ops += 10;
	CHECK(!measure(&s), "it was hardly acquired");
	s = simulate(1, 100, 100);
	hot_for(&s, MS);
	s.ops = 0; /* another lock, at the same place */
	s.now += FGI_TURN_NS;
	measure(&s);
	CHECK(!is_known(&s), "another lock");
}

/* Without a monitor a lock's pace is known, but it is not handed over by leases. */
static void test_unmonitored(void)
{
	struct simulated s = simulate(1, 300, 100);

	s.unmonitored = true;
	CHECK_IS(hot_for(&s, 2 * TRY_AGAIN), 0);
	CHECK(is_known(&s));
}

/* A lock that is not hot, whose two periods are known, and which is not about to be tried. */
static void begin_measured(struct simulated *s)
{
	*s = simulate(1, 200, 300);
	hot_for(s, 2 * TRY_AGAIN);
	while (fgi_hot(s->waiters) || (uint32_t)s->now - fgi_pace_of(s)->changed < TRY_AGAIN / 4 ||
	       (uint32_t)s->now - fgi_pace_of(s)->changed > TRY_AGAIN / 2)
		hot_for(s, 1000);
	pass(s, FGI_TURN_NS);
	CHECK(!measure(s));
	CHECK(fgi_pace(s, false) > 150 && fgi_pace(s, false) < 250, "%u ns", fgi_pace(s, false));
	CHECK(fgi_pace(s, true) > 250, "%u ns", fgi_pace(s, true));
}

/* Two locks that share a place in the table. */
static void test_another_lock(void)
{
	static struct simulated many[16 * FGI_PACES];
	struct simulated *s = &many[0], *other = &many[1];

	begin_measured(s);
	while (fgi_pace_of(other) != fgi_pace_of(s))
		other++;
	CHECK(other < many + 16 * FGI_PACES);
	*other = (struct simulated){.waiters = s->waiters, .now = s->now, .ops = 77, .cost = {395, 395}};
	other->waiters |= FGI_HOT;
	CHECK(measure(other) && is_known(s), "it waits for the measurement that is under way");
	pass(other, FGI_TURN_NS);
	CHECK(!measure(other) && !is_known(s) && !is_known(other), "of a hot lock something is known");
	pass(other, FGI_TURN_NS);
	CHECK(measure(other), "nothing is known of it when it is hot, so that is tried");
	CHECK(fgi_pace(other, false) / 10 == 39 && !fgi_pace(other, true), "%u ns", fgi_pace(other, false));
}

/* A trial that is lost doubles the time to the next; also one in which the lock is not even fast. */
static void test_tries_seldom(void)
{
	const uint32_t when_hot[] = {95, 650, 2000};

	for (int i = 0; i < 3; i++) {
		struct simulated s = simulate(1, 100, when_hot[i]);
		uint32_t trials = 0;
		bool hot = false;

		while (s.now < 10 * TRY_AGAIN) {
			pass(&s, FGI_TURN_NS);
			trials += measure(&s) && !hot;
			hot = fgi_hot(s.waiters);
		}
		CHECK(trials >= 10 && trials <= 15, "%u ns when hot: %u trials", when_hot[i], trials);
	}
}

static bool same_periods(const struct fgi_pace *a, const struct fgi_pace *b)
{
	return a->period[0] == b->period[0] && a->period[1] == b->period[1] && a->changed == b->changed;
}

/* A measurement that says nothing: the next begins, and what was known stays. */
static void check_says_nothing(struct simulated *s)
{
	const struct fgi_pace before = *fgi_pace_of(s);
	bool hot = fgi_hot(s->waiters);

	CHECK(measure(s) == hot);
	CHECK(same_periods(fgi_pace_of(s), &before));
	CHECK(fgi_pace_of(s)->began == fgi_pace_begin(s->now, s->ops, hot));
}

/* The measurement that is under way goes on. */
static void goes_on_measuring(struct simulated *s)
{
	const struct fgi_pace before = *fgi_pace_of(s);

	CHECK(!measure(s));
	CHECK(same_periods(fgi_pace_of(s), &before) && fgi_pace_of(s)->began == before.began);
}

static void test_says_nothing(void)
{
	static struct simulated s;

	begin_measured(&s);
	pass(&s, FGI_LONG_WAIT_NS);
	check_says_nothing(&s);
	s.now += FGI_TURN_NS; /* without an acquisition */
	goes_on_measuring(&s);
	pass(&s, FGI_TURN_NS);
	CHECK(!measure(&s));
	pass(&s, FGI_TURN_NS);
	s.waiters ^= FGI_HOT; /* another process has made it hot meanwhile */
	check_says_nothing(&s);
	pass(&s, FGI_TURN_NS);
	s.waiters ^= FGI_HOT;
	check_says_nothing(&s);
	pass(&s, FGI_TURN_NS - 1);
	goes_on_measuring(&s);
	s.now -= 4 * FGI_LONG_WAIT_NS; /* this thread was preempted after it had read the clock */
	goes_on_measuring(&s);
}

/* It is hot, or not; the counts of waiters are none of its business, but those that another process left go. */
static void test_counts_stay(void)
{
	const uint32_t counts = 3 * FGI_ONE_CLOCKED + 2 * FGI_ONE_NEEDY;
	static struct simulated s;

	s = simulate(1, 300, 100);
	s.waiters += counts;
	hot_for(&s, MS);
	CHECK_IS(s.waiters, fgi_waiters_none() + FGI_HOT + counts);

	s = simulate(1, 300, 100);
	s.waiters += FGI_PROCESS + FGI_HOT + counts;
	CHECK(!measure(&s));
	hot_for(&s, MS);
	CHECK_IS(s.waiters, fgi_waiters_none() + FGI_HOT);
}

int main(void)
{
	check_watchdog(500);
	fgi_self();
	test_faster_when_hot();
	test_not_faster_when_hot();
	test_slow();
	test_tries_again();
	test_forgets();
	test_unmonitored();
	test_another_lock();
	test_tries_seldom();
	test_says_nothing();
	test_counts_stay();
	return 0;
}
