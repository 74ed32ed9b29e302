/* SPDX-License-Identifier: MIT */
/* The default lock's releases wake one waiter at a time. */
#include "tests/unit/counted_lock.h"

/* This thread owns the lock, and releases it again and again: one waiter is woken, and `flag` is out of the word. */
static void release_often(uint32_t flag)
{
	lock.word = fgi_self() | flag;
	fgi_intent_set(&lock.word);
	for (uint32_t i = 0; i < 3; i++) {
		fgi_unlock(&lock);
		CHECK(wakes == 1 && lock.word == 0, "release %u: %u wake-ups, word %#x", i, wakes, lock.word);
		fgi_lock(&lock);
	}
}

/* Two are parked, a CPU idles, and the owner releases again and again: one wake-up, until that waiter runs. */
static void test_wakes_one_at_a_time(void)
{
	struct wait woken_waiter = {0};

	begin(&idle);
	lock.waiters = 2 * FGI_CLOCKED;
	release_often(PARKED);
	lock.waiters = FGI_CLOCKED;
	rise(&lock, &woken_waiter);
	CHECK(lock.word == (fgi_self() | PARKED), "word %#x", lock.word);
	fgi_unlock(&lock);
	CHECK(wakes == 2, "%u wake-ups", wakes);
	lock.waiters = 0;
	finish();
}

/* Two are needy: a release wakes one, and the next do not until that waiter has taken the lock, or gives up. */
static void test_wakes_one_needy_at_a_time(void)
{
	struct wait woken_waiter = {0};

	begin(NULL);
	lock.waiters = 2 * FGI_NEEDY;
	release_often(NEEDY);
	lock.waiters = FGI_NEEDY;
	fgi_unlock(&lock);
	CHECK(take_after_waiting(&lock, &woken_waiter, lock.word), "it was free");
	CHECK(lock.word == (fgi_self() | NEEDY), "word %#x", lock.word);
	fgi_unlock(&lock);
	CHECK(wakes == 2, "%u wake-ups", wakes);
	CHECK(give_up(&lock, &woken_waiter) == ETIMEDOUT && wakes == 3, "%u wake-ups", wakes);
	lock.waiters = 0;
	finish();
}

/* The pace of a quick lock, as it was measured, or of one that is not. */
static void measured(uint32_t period, bool hot)
{
	struct fgi_pace *p = fgi_pace_of(&lock);

	*p = (struct fgi_pace){.lock = (uintptr_t)&lock};
	p->period[hot] = period * FGI_PACE_UNIT;
}

static void release_with(uint32_t waiters)
{
	lock.waiters = waiters;
	lock.word = fgi_self() | PARKED;
	fgi_intent_set(&lock.word);
	fgi_unlock(&lock);
}

static bool turn_may_be_over(void)
{
	return turn_is_over(&lock, fgi_now_ns(CLOCK_MONOTONIC));
}

static const struct {
	uint32_t period, flag; /* in ns; what its release and its next owner keep or set */
} paces[] = {{0, PARKED}, {FGI_HOT_NS, PARKED}, {FGI_HOT_NS - 1, 0}, {1, 0}};

#define PACES (sizeof(paces) / sizeof(paces[0]))

/* A quick lock's release looks at PARKED once, and its next owner does not set it; another lock's do. */
static void test_quick_lock_drops_its_flag(void)
{
	for (size_t i = 0; i < 2 * PACES; i++) {
		const bool hot = i & 1;
		const uint32_t period = paces[i / 2].period, flag = paces[i / 2].flag;
		struct wait waiter = {0};

		begin(&quiet);
		measured(period, hot);
		begin_turn(&lock, fgi_now_ns(CLOCK_MONOTONIC));
		lock.ops = 1; /* a hot lock's release reads the clock in one section of 16 */
		release_with(FGI_CLOCKED + hot * FGI_HOT);
		CHECK((lock.word == flag && wakes == 0) || (!hot && turn_may_be_over()), "%u ns: word %#x, %u wake-ups",
		      period, lock.word, wakes);
		lock.word = 0;
		CHECK(take_after_waiting(&lock, &waiter, 0), "it was free");
		CHECK(lock.word == (fgi_self() | flag), "%u ns: word %#x taken", period, lock.word);
		lock.waiters = 0;
		fgi_unlock(&lock);
		finish();
	}
}

/* The last watcher takes a hot lock: where that is not quick, its release looks after those that it has watched for. */
static void test_last_watcher_sets_the_flag(void)
{
	for (size_t i = 0; i < PACES; i++) {
		struct wait waiter = {0};

		begin(&quiet);
		measured(paces[i].period, true);
		lock.waiters = FGI_CLOCKED + FGI_HOT;
		waiter.watching = fgi_join(&lock.waiters, FGI_WATCHER);
		CHECK(take_after_waiting(&lock, &waiter, 0), "it was free");
		CHECK(lock.word == (fgi_self() | paces[i].flag), "%u ns: word %#x", paces[i].period, lock.word);
		lock.waiters = 0;
		fgi_unlock(&lock);
		finish();
	}
}

/* Would this thread park, that waits where nothing moves yet? */
static bool would_park(struct wait w)
{
	w.now = w.moved_at = fgi_now_ns(CLOCK_MONOTONIC);
	return should_park(&lock, &w, fgi_self());
}

/* A release that wakes a waiter for its turn makes this thread park at its next wait for that lock, once. */
static void test_makes_way(void)
{
	static struct fg_lock another;
	static const uint32_t waiters[] = {FGI_CLOCKED, FGI_CLOCKED, FGI_CLOCKED, FGI_CLOCKED + FGI_HOT};

	for (size_t i = 0; i < sizeof(waiters) / sizeof(waiters[0]); i++) {
		struct wait w = {.now = fgi_now_ns(CLOCK_MONOTONIC)};

		begin(&quiet);
		begin_turn(&lock, w.now - 2 * FGI_LONG_WAIT_NS);
		release_with(waiters[i]);
		CHECK(wakes == 1, "%u wake-ups", wakes);
		lock.waiters = 0;
		if (i == 0)
			CHECK(would_park((struct wait){0}) && !would_park((struct wait){0}));
		if (i == 1)
			CHECK(!would_park((struct wait){.head = true}), "the others make way for it");
		if (i == 2) {
			CHECK(take_after_waiting(&lock, &(struct wait){0}, lock.word));
			fgi_unlock(&lock);
			CHECK(!would_park((struct wait){0}), "it has waited since");
		}
		if (i == 3)
			CHECK(!would_park((struct wait){0}), "a hot lock's waiter watches");
		own()->made_way_at = (uintptr_t)&another;
		CHECK(!would_park((struct wait){0}), "at another lock");
		finish();
	}
	begin(&idle);
	release_with(FGI_CLOCKED);
	lock.waiters = 0;
	CHECK(wakes == 1 && !would_park((struct wait){0}), "the waiter has a CPU of its own");
	finish();
}

int main(void)
{
	check_watchdog(100);
	fgi_self();
	test_wakes_one_at_a_time();
	test_wakes_one_needy_at_a_time();
	test_quick_lock_drops_its_flag();
	test_last_watcher_sets_the_flag();
	test_makes_way();
	return 0;
}
