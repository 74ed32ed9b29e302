/* SPDX-License-Identifier: MIT */
/* Condition variables with a deadline, on both clocks, and the race between the deadline and a signal. */
#include <sys/prctl.h>

#include "tests/posix/posix.h"

static void init_clock(pthread_cond_t *c, clockid_t clock)
{
	pthread_condattr_t attr;

	ok(pthread_condattr_init(&attr));
	ok(pthread_condattr_setclock(&attr, clock));
	ok(pthread_cond_init(c, &attr));
	ok(pthread_condattr_destroy(&attr));
}

static int wait_until(pthread_cond_t *c, pthread_mutex_t *m, bool clockwait, clockid_t clock, const struct timespec *t)
{
	return clockwait ? pthread_cond_clockwait(c, m, clock, t) : pthread_cond_timedwait(c, m, t);
}

/* The deadline passes; the mutex (errorcheck, so it would tell) is held again. */
static void passes(pthread_cond_t *c, bool clockwait, clockid_t clock)
{
	static const struct timespec wrong[] = {{1, -1}, {1, 1000000000}}, gone[] = {{1, 0}, {0, 0}, {-5, 0}};
	struct timespec soon;
	pthread_mutex_t m;

	init_kind(&m, PTHREAD_MUTEX_ERRORCHECK);
	ok(pthread_mutex_lock(&m));
	soon = from_now(clock, 10000000);
	CHECK_IS(wait_until(c, &m, clockwait, clock, &soon), ETIMEDOUT);
	CHECK(reached(clock, &soon));
	CHECK_IS(pthread_mutex_lock(&m), EDEADLK);
	for (int i = 0; i < 3; i++) {
		CHECK_IS(wait_until(c, &m, clockwait, clock, &gone[i]), ETIMEDOUT);
		CHECK_IS(pthread_mutex_lock(&m), EDEADLK);
	}
	for (int i = 0; i < 2; i++)
		CHECK_IS(wait_until(c, &m, clockwait, clock, &wrong[i]), EINVAL);
	CHECK_IS(pthread_cond_clockwait(c, &m, CLOCK_PROCESS_CPUTIME_ID, &soon), EINVAL);
	CHECK_IS(pthread_cond_clockwait(c, &m, 4711, &soon), EINVAL);
	ok(pthread_mutex_unlock(&m));
	CHECK_IS(wait_until(c, &m, clockwait, clock, &soon), EPERM);
}

struct pair {
	pthread_mutex_t m;
	pthread_cond_t *c;
	bool clockwait;
	clockid_t clock;
	int waiting;
};

static void *wait_long(void *arg)
{
	struct pair *p = arg;
	struct timespec late = from_now(p->clock, LONG_WAIT);

	ok(pthread_mutex_lock(&p->m));
	tell(&p->waiting, 1);
	ok(wait_until(p->c, &p->m, p->clockwait, p->clock, &late));
	ok(pthread_mutex_unlock(&p->m));
	return NULL;
}

static void is_met(pthread_cond_t *c, bool clockwait, clockid_t clock)
{
	struct pair p = {.m = PTHREAD_MUTEX_INITIALIZER, .c = c, .clockwait = clockwait, .clock = clock};
	pthread_t waiter = check_thread(wait_long, &p);

	await(&p.waiting, 1);
	ok(pthread_mutex_lock(&p.m));
	ok(pthread_cond_signal(c));
	ok(pthread_mutex_unlock(&p.m));
	check_join(waiter);
}

/* The race: hasty waiters, whose deadline passes just when the signals come, in front of as many steady ones, and as
 * many signals. The list cannot run empty, so each signal must release exactly one. */
#define EACH 16
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static struct timespec deadline;
static int waiting, released, timeouts, over;
static long window_ns = 3000000; /* from the first thread's start to the deadline: longer where that is too short */

static void *hasty(void *arg)
{
	int result;

	prctl(PR_SET_TIMERSLACK, 1ul); /* all timers together, please */
	ok(pthread_mutex_lock(&m));
	tell(&waiting, waiting + 1);
	result = pthread_cond_clockwait(&c, &m, CLOCK_MONOTONIC, &deadline);
	CHECK(result == 0 || result == ETIMEDOUT);
	timeouts += result != 0;
	tell(&released, released + !result);
	ok(pthread_mutex_unlock(&m));
	return arg;
}

static void *steady(void *arg)
{
	ok(pthread_mutex_lock(&m));
	tell(&waiting, waiting + 1);
	ok(pthread_cond_wait(&c, &m));
	if (!over)
		tell(&released, released + 1);
	ok(pthread_mutex_unlock(&m));
	return arg;
}

static int race(int round, int each)
{
	pthread_t threads[2 * EACH];
	struct timespec almost = from_now(CLOCK_MONOTONIC, window_ns - round % 40 * 1000);

	deadline = from_now(CLOCK_MONOTONIC, window_ns);
	waiting = released = timeouts = over = 0;
	for (int i = 0; i < 2 * each; i++) {
		threads[i] = check_thread(i < each ? hasty : steady, NULL);
		await(&waiting, i + 1);
	}
	ok(pthread_mutex_lock(&m)); /* so the last one waits, too */
	ok(pthread_mutex_unlock(&m));
	if (reached(CLOCK_MONOTONIC, &almost))
		window_ns += 1000000; /* no race this time: all are late */
	while (!reached(CLOCK_MONOTONIC, &almost))
		;
	for (int i = 0; i < each; i++)
		ok(pthread_cond_signal(&c));
	await(&released, each);
	for (int i = 0; i < each; i++)
		check_join(threads[i]);
	ok(pthread_mutex_lock(&m));
	if (ours()) /* glibc may wake more than it must */
		CHECK_IS(released, each);
	over = 1;
	ok(pthread_cond_broadcast(&c));
	ok(pthread_mutex_unlock(&m));
	for (int i = each; i < 2 * each; i++)
		check_join(threads[i]);
	return timeouts;
}

int main(void)
{
	pthread_cond_t clocks[3] = {PTHREAD_COND_INITIALIZER};
	int timed_out = 0, met = 0;

	init_clock(&clocks[1], CLOCK_REALTIME);
	init_clock(&clocks[2], CLOCK_MONOTONIC);
	for (int i = 0; i < 3; i++) {
		clockid_t own = i == 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME;

		passes(&clocks[i], false, own);
		passes(&clocks[i], true, CLOCK_MONOTONIC);
		passes(&clocks[i], true, CLOCK_REALTIME);
		is_met(&clocks[i], false, own);
		is_met(&clocks[i], true, CLOCK_MONOTONIC);
		is_met(&clocks[i], true, CLOCK_REALTIME);
		ok(pthread_cond_destroy(&clocks[i]));
	}
	/* At least so many rounds, and until both ends of the race were seen: on a busy machine all are late first. */
	for (int i = 0; goes_on(i, 400) || !timed_out || !met; i++) {
		int late = race(i, at_most(2 * EACH) / 2);

		timed_out += late;
		met += at_most(2 * EACH) / 2 - late;
	}
	return 0;
}
