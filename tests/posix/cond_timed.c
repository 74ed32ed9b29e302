/* SPDX-License-Identifier: MIT */
/* Condition variables with a deadline, on both clocks, and the race between the deadline and a signal. */
#include "tests/posix/check.h"

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
	pthread_t waiter = start(wait_long, &p);

	await(&p.waiting, 1);
	ok(pthread_mutex_lock(&p.m));
	ok(pthread_cond_signal(c));
	ok(pthread_mutex_unlock(&p.m));
	finish(waiter);
}

/* The race: `hasty` waits with deadlines that pass just when the signals come, `steady` without. A signal is sent only
 * while steady waits, so each must release exactly one of the two. */
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int steady_waits, released, over;

static void *steady(void *arg)
{
	(void)arg;
	ok(pthread_mutex_lock(&m));
	while (!over) {
		tell(&steady_waits, 1);
		ok(pthread_cond_wait(&c, &m));
		tell(&steady_waits, 0);
		tell(&released, released + 1);
	}
	ok(pthread_mutex_unlock(&m));
	return NULL;
}

static void *hasty(void *arg)
{
	long timeouts = 0;

	(void)arg;
	ok(pthread_mutex_lock(&m));
	for (int i = 0; !over; i++) {
		struct timespec soon = from_now(CLOCK_MONOTONIC, i % 2 * (i % 50) * 1000);

		if (pthread_cond_clockwait(&c, &m, CLOCK_MONOTONIC, &soon) == 0)
			tell(&released, released + 1);
		else
			timeouts++;
	}
	ok(pthread_mutex_unlock(&m));
	return (void *)timeouts;
}

static void race(void)
{
	pthread_t a = start(steady, NULL), b = start(hasty, NULL);

	for (int sent = 1; sent <= 10000; sent++) {
		for (;;) { /* until steady waits */
			ok(pthread_mutex_lock(&m));
			if (steady_waits)
				break;
			ok(pthread_mutex_unlock(&m));
			await(&steady_waits, 1);
		}
		if (sent % 4)
			ok(pthread_mutex_unlock(&m)); /* hasty comes and goes while the signal is sent */
		for (volatile int delay = sent % 61 * 10; delay > 0; delay--)
			;
		ok(pthread_cond_signal(&c));
		if (sent % 4 == 0)
			ok(pthread_mutex_unlock(&m));
		await(&released, sent);
		if (ours())
			CHECK_IS(__atomic_load_n(&released, __ATOMIC_ACQUIRE), sent);
	}
	ok(pthread_mutex_lock(&m));
	over = 1;
	ok(pthread_cond_broadcast(&c));
	ok(pthread_mutex_unlock(&m));
	finish(a);
	CHECK((long)finish(b) > 0);
}

int main(void)
{
	pthread_cond_t clocks[3] = {PTHREAD_COND_INITIALIZER};

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
	race();
	return 0;
}
