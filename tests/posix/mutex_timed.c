/* SPDX-License-Identifier: MIT */
/* Locks with a deadline: on both clocks, that pass and that are met, and what is wrong with one when. */
#include "tests/posix/posix.h"

static const int kinds[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ADAPTIVE_NP, PTHREAD_MUTEX_ERRORCHECK,
			    PTHREAD_MUTEX_RECURSIVE};

struct attempt {
	pthread_mutex_t *m;
	clockid_t clock;
	bool timedlock; /* the function that knows CLOCK_REALTIME only */
	struct timespec deadline;
	int waiting;
};

static int attempt(struct attempt *a)
{
	return a->timedlock ? pthread_mutex_timedlock(a->m, &a->deadline)
			    : pthread_mutex_clocklock(a->m, a->clock, &a->deadline);
}

static void *once(void *arg)
{
	return (void *)(long)attempt(arg);
}

static long result(struct attempt *a, long sec, long nsec)
{
	a->deadline = (struct timespec){.tv_sec = sec, .tv_nsec = nsec};
	return elsewhere(once, a);
}

/* Times out twice before it says that it waits, so it has waited with this lock before it is let in. */
static void *let_in(void *arg)
{
	struct attempt *a = arg;

	for (int i = 0; i < 2; i++) {
		a->deadline = from_now(a->clock, 2000000);
		CHECK_IS(attempt(a), ETIMEDOUT);
		CHECK(reached(a->clock, &a->deadline));
	}
	a->deadline = from_now(a->clock, LONG_WAIT);
	tell(&a->waiting, 1);
	ok(attempt(a));
	ok(pthread_mutex_unlock(a->m));
	return NULL;
}

static void contended(struct attempt *a)
{
	pthread_t waiter;

	ok(pthread_mutex_lock(a->m));
	CHECK_IS(result(a, 1, 0), ETIMEDOUT);
	CHECK_IS(result(a, 0, 0), ETIMEDOUT);
	CHECK_IS(result(a, -1, 0), ETIMEDOUT);
	CHECK_IS(result(a, 1, -1), EINVAL);
	CHECK_IS(result(a, 1, 1000000000), EINVAL);
	a->deadline = from_now(a->clock, 20000000);
	CHECK_IS(elsewhere(once, a), ETIMEDOUT);
	CHECK(reached(a->clock, &a->deadline));
	waiter = check_thread(let_in, a);
	await(&a->waiting, 1);
	ok(pthread_mutex_unlock(a->m));
	check_join(waiter);
}

static void uncontended(struct attempt *a)
{
	a->deadline = (struct timespec){.tv_sec = 1, .tv_nsec = -1}; /* not looked at */
	ok(attempt(a));
	ok(pthread_mutex_unlock(a->m));
	CHECK_IS(pthread_mutex_clocklock(a->m, CLOCK_PROCESS_CPUTIME_ID, &a->deadline), EINVAL);
	CHECK_IS(pthread_mutex_clocklock(a->m, 4711, &a->deadline), EINVAL);
	ok(elsewhere(try_it, a->m));
}

/* Waiters that give up all the time among others that do not: nobody is lost and nothing is let in twice. */
static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER;
static long counter;

static void *impatient(void *arg)
{
	long taken = 0;

	(void)arg;
	for (int i = 0; i < 5000; i++) {
		struct timespec deadline = from_now(CLOCK_MONOTONIC, i % 7 * 1000);

		if (i % 2 == 0)
			ok(pthread_mutex_lock(&busy));
		else if (pthread_mutex_clocklock(&busy, CLOCK_MONOTONIC, &deadline))
			continue;
		counter++;
		taken++;
		ok(pthread_mutex_unlock(&busy));
	}
	return (void *)taken;
}

int main(void)
{
	int n = at_most(4);
	pthread_t threads[4];
	long taken = 0;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		for (int how = 0; how < 3; how++) {
			pthread_mutex_t m;
			struct attempt a = {
				.m = &m, .clock = how == 0 ? CLOCK_MONOTONIC : CLOCK_REALTIME, .timedlock = how == 2};

			init_kind(&m, kinds[i]);
			uncontended(&a);
			contended(&a);
			uncontended(&a);
			ok(pthread_mutex_destroy(&m));
		}
	}
	for (int i = 0; i < n; i++)
		threads[i] = check_thread(impatient, NULL);
	for (int i = 0; i < n; i++)
		taken += (long)check_join(threads[i]);
	CHECK_IS(counter, taken);
	CHECK(taken >= n * 2500);
	return 0;
}
