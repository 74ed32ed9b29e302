/* SPDX-License-Identifier: MIT */
/* Whether a lock is hot (locks/default/pace.h), by clocks and counts that are made up: a lock costs so much from one
 * acquisition to the next when it is not hot, and so much when it is. */
#include "locks/default/pace.h"

#include "tests/check.h"

#define MS 1000000ull
#define TRY_AGAIN (1ull << 25) /* once in so many ns a measurement is forgotten */

struct simulated {
	uint32_t ops, waiters;
	uint64_t now, spent; /* spent: since the last acquisition */
	uint32_t cost[2];    /* ns from one acquisition to the next: of the lock when it is not hot, and when it is */
	uint32_t seed;
};

static struct simulated simulate(uint64_t now, uint32_t cold, uint32_t hot)
{
	*fgi_pace() = (struct fgi_pace){0};
	fgi_hot_pays = 0;
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
	fgi_pace_measure(s, &s->ops, &s->waiters, s->now);
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

/* What a thread believes of a lock does not outlive it, nor a time in which it was hardly acquired. */
static void test_quick_ends(void)
{
	struct simulated s = simulate(1, 100, 100);

	hot_for(&s, MS);
	CHECK(fgi_pace_quick(&s) && !fgi_pace_quick(&s.now));
	pass(&s, 4 * FGI_STALE_NS);
	measure(&s);
	CHECK(fgi_pace_quick(&s), "it was acquired all the time");
	s.now += 4 * FGI_STALE_NS;
	s.ops += 10;
	measure(&s);
	CHECK(!fgi_pace_quick(&s), "it was hardly acquired");
	s = simulate(1, 100, 100);
	hot_for(&s, MS);
	s.ops = 0; /* another lock, at the same place */
	s.now += FGI_SAMPLE_NS;
	measure(&s);
	CHECK(!fgi_pace_quick(&s), "another lock");
}

/* A lock whose two periods are known, past the time in which one is forgotten. */
static void begin_measured(struct simulated *s)
{
	*s = simulate(1, 200, 300);
	hot_for(s, 2 * TRY_AGAIN);
	while (fgi_pace_again(s->now, true) || fgi_hot(s->waiters) || !fgi_pace()->period[1])
		hot_for(s, 1000);
	pass(s, FGI_SAMPLE_NS);
	CHECK(!measure(s));
	CHECK(fgi_pace()->period[0] > 150 && fgi_pace()->period[0] < 250);
	CHECK(fgi_pace()->period[1] > 250);
}

static void test_another_lock(void)
{
	static struct simulated s, other;

	begin_measured(&s);
	other = (struct simulated){.waiters = s.waiters, .now = s.now, .ops = 77, .cost = {400, 400}};
	CHECK(!measure(&other));
	CHECK(fgi_pace()->lock == (uintptr_t)&other && fgi_pace()->ops == 77);
	CHECK(!fgi_pace()->period[0] && !fgi_pace()->period[1]);
	pass(&other, FGI_SAMPLE_NS);
	CHECK(fgi_hot_pays < 0);
	CHECK(!measure(&other), "it did not pay for the lock before");
	fgi_hot_pays = 0;
	pass(&other, FGI_SAMPLE_NS);
	CHECK(measure(&other), "nothing is known of it when it is hot, so that is tried");
	CHECK(fgi_pace()->period[0] >= 400 && fgi_pace()->period[0] <= 500 && !fgi_pace()->period[1]);
}

/* A thread knows nothing of the lock, which is hot or not. Returns what it makes of it. */
static bool judged_anew(struct simulated *s)
{
	*fgi_pace() = (struct fgi_pace){0};
	measure(s);
	pass(s, FGI_SAMPLE_NS);
	return measure(s);
}

static void test_what_has_paid(void)
{
	static struct simulated s;

	s = simulate(TRY_AGAIN / 2, 300, 100);
	hot_for(&s, 2 * TRY_AGAIN);
	CHECK_IS(fgi_hot_pays, 4);
	CHECK(fgi_hot(s.waiters) && judged_anew(&s), "it has paid: the lock stays hot");
	fgi_hot_pays = 0;
	CHECK(!judged_anew(&s), "not known: the other is tried");

	s = simulate(TRY_AGAIN / 2, 100, 300);
	hot_for(&s, 2 * TRY_AGAIN);
	CHECK_IS(fgi_hot_pays, -4);
	CHECK(!fgi_hot(s.waiters) && !judged_anew(&s), "it has not paid: not tried");
}

/* One sample in which a thread was preempted does not make a lock look slow. */
static void test_preempted_sample(void)
{
	CHECK_IS(fgi_pace_mean(0, 100), 100);
	CHECK_IS(fgi_pace_mean(100, 60), 80);
	CHECK_IS(fgi_pace_mean(100, 140), 110);
	CHECK_IS(fgi_pace_mean(100, UINT16_MAX), 125);
}

/* A measurement that says nothing: the next begins, and what was known stays. */
static void check_says_nothing(struct simulated *s)
{
	const struct fgi_pace before = *fgi_pace();
	bool hot = fgi_hot(s->waiters);

	CHECK(measure(s) == hot);
	CHECK(fgi_pace()->period[0] == before.period[0] && fgi_pace()->period[1] == before.period[1]);
	CHECK(fgi_pace()->since == (uint32_t)s->now && fgi_pace()->ops == s->ops && fgi_pace()->hot == hot);
}

static void test_says_nothing(void)
{
	static struct simulated s;
	struct fgi_pace before;

	begin_measured(&s);
	pass(&s, FGI_STALE_NS);
	check_says_nothing(&s);
	s.now += FGI_SAMPLE_NS; /* without an acquisition */
	check_says_nothing(&s);
	pass(&s, FGI_SAMPLE_NS);
	s.waiters ^= FGI_HOT; /* another thread has made it hot meanwhile */
	check_says_nothing(&s);
	s.waiters ^= FGI_HOT;
	check_says_nothing(&s);
	pass(&s, FGI_SAMPLE_NS - 1); /* too short: it goes on */
	before = *fgi_pace();
	CHECK(!measure(&s));
	CHECK(fgi_pace()->since == before.since && fgi_pace()->ops == before.ops);
	CHECK(fgi_pace()->period[0] == before.period[0] && fgi_pace()->period[1] == before.period[1]);
}

/* It is hot, or not; the counts of waiters are none of its business, but those that another process left go. */
static void test_counts_stay(void)
{
	const uint32_t counts = 3 * FGI_CLOCKED + 2 * FGI_NEEDY;
	static struct simulated s;

	s = simulate(TRY_AGAIN / 2, 300, 100);
	s.waiters += counts;
	measure(&s);
	pass(&s, FGI_SAMPLE_NS);
	CHECK(measure(&s));
	CHECK_IS(s.waiters, fgi_waiters_none() + FGI_HOT + counts);

	s = simulate(TRY_AGAIN / 2, 300, 100);
	s.waiters += FGI_PROCESS + FGI_HOT + counts;
	CHECK(!measure(&s));
	pass(&s, FGI_SAMPLE_NS);
	CHECK(measure(&s));
	CHECK_IS(s.waiters, fgi_waiters_none() + FGI_HOT);
}

int main(void)
{
	check_watchdog(60);
	fgi_self();
	test_faster_when_hot();
	test_not_faster_when_hot();
	test_slow();
	test_tries_again();
	test_quick_ends();
	test_another_lock();
	test_what_has_paid();
	test_preempted_sample();
	test_says_nothing();
	test_counts_stay();
	return 0;
}
