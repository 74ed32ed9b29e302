/* SPDX-License-Identifier: MIT */
/* The default lock's releases wake one waiter at a time. */
#include <string.h>

#include "tests/unit/counted_lock.h"
#include "tests/unit/forbid.h"

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

/* Two are parked, a CPU idles, and the owner releases again and again: one wake-up until that waiter owns the lock. */
static void test_wakes_one_at_a_time(void)
{
	struct wait woken_waiter = {0};

	begin(&idle);
	lock.waiters = 2 * FGI_ONE_CLOCKED;
	release_often(PARKED);
	lock.waiters = FGI_ONE_CLOCKED;
	fgi_unlock(&lock);
	CHECK(take_after_waiting(&lock, &woken_waiter, lock.word), "it was free");
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
	lock.waiters = 2 * FGI_ONE_NEEDY;
	release_often(NEEDY);
	lock.waiters = FGI_ONE_NEEDY;
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
static void measured(uint32_t period)
{
	*fgi_pace_of(&lock) = (struct fgi_pace){.lock = (uintptr_t)&lock, .period = {period, period}};
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

/* While it is not useful to wake a waiter, a release keeps PARKED. A quick lock's next owner does not set it; another
 * lock's does. */
static void test_quick_locks_owner_sets_no_flag(void)
{
	static const struct {
		uint32_t period, hot, flag; /* period: in ns */
	} of[] = {{0, 0, PARKED}, {FGI_HOT_NS, 0, PARKED}, {FGI_HOT_NS - 1, 0, 0}, {1, 0, 0}, {1, FGI_HOT, PARKED}};

	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		struct wait waiter = {0};

		begin(&quiet);
		measured(of[i].period);
		begin_turn(&lock, fgi_now_ns(CLOCK_MONOTONIC));
		release_with(FGI_ONE_CLOCKED + of[i].hot);
		CHECK((lock.word == PARKED && wakes == 0) || turn_may_be_over(), "%u ns: word %#x, %u wake-ups",
		      of[i].period, lock.word, wakes);
		lock.word = 0;
		CHECK(take_after_waiting(&lock, &waiter, 0), "it was free");
		CHECK(lock.word == (fgi_self() | of[i].flag), "%u ns: word %#x taken", of[i].period, lock.word);
		lock.waiters = 0;
		fgi_unlock(&lock);
		finish();
	}
}

/* On which CPUs waiters have run, 8 by 8. Their number is not known. */
static void know_cpus(uint8_t each)
{
	memset(fgi_cpu_set, each, sizeof(fgi_cpu_set));
	fgi_cpus = 0;
}

/* Beside a watcher the flag goes, hot or not. The release wakes one if a CPU idles on which waiters have run. */
static void test_watched_lock_drops_its_flag(void)
{
	for (int hot = 0; hot < 2; hot++) {
		for (uint8_t ran_on = 0; ran_on < 3; ran_on++) {
			for (int idles = 0; idles < 2; idles++) {
				begin(idles ? &idle : &quiet);
				know_cpus(0);
				fgi_cpu_set[0] = ran_on; /* CPU 0 idles, or none */
				somebody_sleeps = true;
				release_with(FGI_ONE_CLOCKED + FGI_ONE_WATCHER + (hot ? FGI_HOT : 0));
				CHECK(lock.word == 0 && wakes == (idles && ran_on == 1), "word %#x, %u wake-ups",
				      lock.word, wakes);
				lock.waiters = 0;
				finish();
			}
		}
	}
	know_cpus(0);
}

/* On many CPUs a waiter looks for a moment, then watches, or parks beside enough watchers. */
static void test_few_stay_awake(void)
{
	uint64_t now = fgi_now_ns(CLOCK_MONOTONIC);
	struct wait comes = {.now = now, .awake = now}, stays = {.now = now, .awake = now - 1}, parks = stays;

	begin(&quiet);
	know_cpus(0xff);
	fgi_cpus = FGI_FEW_CPUS;
	CHECK(!is_watched(false), "CPUs are few");
	fgi_cpus = FGI_FEW_CPUS + 1;
	CHECK(is_watched(false), "CPUs are many");
	begin_turn(&lock, now);
	lock.waiters = FGI_ONE_WATCHER * FGI_FEW;
	CHECK(watch(&lock, &comes) && !comes.watching, "it has just come");
	CHECK(!watch(&lock, &parks) && !parks.watching, "others are awake");
	lock.waiters = FGI_ONE_WATCHER * (FGI_FEW - 1);
	CHECK(watch(&lock, &stays) && fgi_watchers(lock.waiters) == FGI_FEW, "one more may stay");
	lock.waiters += FGI_ONE_WATCHER;
	CHECK(!watch(&lock, &stays), "another was woken");
	stays.woken = true;
	CHECK(watch(&lock, &stays), "it was woken itself");
	lock.waiters = 0;
	finish();
	know_cpus(0);
}

static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	CHECK(sched_setaffinity(0, sizeof(set), &set) == 0);
}

/* As threads that are bound to a CPU each, one after the other: the process uses all of these. No system call says so:
 * it may be in a sandbox by now, which kills for it. */
static void *use_cpus(void *allowed)
{
	uint32_t n = 0;

	filter_call(SYS_sched_getaffinity, SECCOMP_RET_KILL_PROCESS, 0); /* of this thread */
	for (int cpu = 0; cpu < CPU_SETSIZE && n <= FGI_FEW_CPUS; cpu++) {
		if (!CPU_ISSET(cpu, (cpu_set_t *)allowed))
			continue;
		run_on(cpu);
		CHECK(is_watched(false) == (++n > FGI_FEW_CPUS) && fgi_cpus == n, "on %u CPUs: %u", n, fgi_cpus);
	}
	return NULL;
}

static void test_bound_threads(void)
{
	cpu_set_t allowed;

	CHECK(sched_getaffinity(0, sizeof(allowed), &allowed) == 0);
	begin(&quiet);
	know_cpus(0);
	check_join(check_thread(use_cpus, &allowed));
	finish();
}

/* Beside a watcher one taker in SOME leaves the parked to its release, and each where nobody watches. */
static void test_takers_share(void)
{
	begin(&quiet);
	for (lock.ops = 0; lock.ops < 2 * FGI_SOME; lock.ops++) {
		bool looks = lock.ops % FGI_SOME == 0;

		CHECK(flags_of(&lock, 0) == 0, "nobody is parked");
		lock.waiters = FGI_ONE_CLOCKED + FGI_ONE_WATCHER;
		CHECK(flags_of(&lock, 0) == (looks ? PARKED : 0), "after %u acquisitions", lock.ops);
		lock.waiters = FGI_ONE_CLOCKED + FGI_ONE_WATCHER + FGI_HOT;
		CHECK(flags_of(&lock, 0) == 0, "its watcher wakes");
		lock.waiters = FGI_ONE_CLOCKED;
		CHECK(flags_of(&lock, 0) == PARKED, "nobody watches");
		lock.waiters = 0;
	}
	finish();
}

/* A watcher that gives up, or whose lock is no longer hot, hands those that it has watched for to the release. */
static void test_watcher_leaves(void)
{
	for (int gives_up = 0; gives_up < 2; gives_up++) {
		struct wait w = {.looked = true, .began = 1};

		begin(&quiet);
		lock.word = fgi_self();
		lock.waiters = FGI_ONE_CLOCKED + (gives_up ? FGI_HOT : 0);
		w.watching = fgi_join(&lock.waiters, FGI_ONE_WATCHER);
		if (gives_up)
			give_up(&lock, &w);
		else
			look_at_clock(&lock, &w, lock.word, 0);
		CHECK(!w.watching && !fgi_watchers(lock.waiters) && (lock.word & PARKED), "word %#x", lock.word);
		lock = (struct fg_lock){0};
		finish();
	}
}

/* A release has woken one for its turn, and taken PARKED out. That waiter gives up: the next release looks again. One
 * that was not woken leaves the word alone. */
static void test_woken_waiter_gives_up(void)
{
	for (int woken = 0; woken < 2; woken++) {
		struct wait w = {.looked = true, .began = 1, .woken = woken};

		begin(&quiet);
		lock.word = fgi_self();
		lock.waiters = FGI_ONE_CLOCKED;
		CHECK(give_up(&lock, &w) == ETIMEDOUT && lock.waiters == FGI_ONE_CLOCKED, "%#x", lock.waiters);
		CHECK(lock.word == (fgi_self() | (woken ? PARKED : 0)), "word %#x", lock.word);
		lock = (struct fg_lock){0};
		finish();
	}
}

/* A waiter that rises watches if the lock is hot by now, and it is not a real-time one. */
static void test_rises(void)
{
	for (int i = 0; i < 8; i++) {
		struct wait w = {.hot = i & 1, .real_time = i & 2};
		bool hot = i & 4;

		begin(&quiet);
		lock.waiters = hot ? FGI_HOT : 0;
		rise(&lock, &w);
		CHECK(fgi_watchers(lock.waiters) == (hot && !w.real_time), "%d: %#x", i, lock.waiters);
		lock.waiters = 0;
		finish();
	}
}

/* The last watcher takes a hot lock: its release looks after those that it has watched for. */
static void test_last_watcher_sets_the_flag(void)
{
	struct wait waiter = {0};

	begin(&quiet);
	measured(1);
	lock.waiters = FGI_ONE_CLOCKED + FGI_HOT;
	waiter.watching = fgi_join(&lock.waiters, FGI_ONE_WATCHER);
	CHECK(take_after_waiting(&lock, &waiter, 0), "it was free");
	CHECK(lock.word == (fgi_self() | PARKED), "word %#x", lock.word);
	lock.waiters = 0;
	fgi_unlock(&lock);
	finish();
}

/* Would this thread park, that waits where nothing moves yet? */
static bool would_park(bool head)
{
	uint64_t now = fgi_now_ns(CLOCK_MONOTONIC);
	struct wait w = {.now = now, .moved_at = now, .head = head};

	return should_park(&lock, &w, fgi_self());
}

/* A release wakes a waiter for its turn. */
static void make_way(void)
{
	begin(&quiet);
	somebody_sleeps = true;
	begin_turn(&lock, fgi_now_ns(CLOCK_MONOTONIC) - 2 * FGI_LONG_WAIT_NS);
	release_with(FGI_ONE_CLOCKED);
	CHECK(wakes == 1, "%u wake-ups", wakes);
	lock.waiters = 0;
}

/* Then this thread parks at its next wait for that lock, once. */
static void test_makes_way(void)
{
	static struct fg_lock another;

	make_way();
	CHECK(would_park(false) && !would_park(false));
	make_way();
	CHECK(!would_park(true), "the others make way for a head waiter");
	make_way();
	CHECK(take_after_waiting(&lock, &(struct wait){0}, lock.word));
	fgi_unlock(&lock);
	CHECK(!would_park(false), "it has waited since");
	make_way();
	memo()->made_way_at = (uintptr_t)&another;
	CHECK(!would_park(false), "at another lock");
	begin(&quiet);
	begin_turn(&lock, fgi_now_ns(CLOCK_MONOTONIC) - 2 * FGI_LONG_WAIT_NS);
	release_with(FGI_ONE_CLOCKED);
	lock.waiters = 0;
	CHECK(wakes == 1 && !would_park(false), "nobody slept yet");
	begin(&idle);
	somebody_sleeps = true;
	release_with(FGI_ONE_CLOCKED);
	lock.waiters = 0;
	CHECK(wakes == 1 && !would_park(false), "the waiter has a CPU of its own");
	finish();
}

int main(void)
{
	check_watchdog(500);
	fgi_self();
	test_wakes_one_at_a_time();
	test_wakes_one_needy_at_a_time();
	test_quick_locks_owner_sets_no_flag();
	test_watched_lock_drops_its_flag();
	test_few_stay_awake();
	test_takers_share();
	test_watcher_leaves();
	test_woken_waiter_gives_up();
	test_rises();
	test_last_watcher_sets_the_flag();
	test_makes_way();
	test_bound_threads();
	return 0;
}
