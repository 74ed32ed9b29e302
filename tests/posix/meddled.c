/* SPDX-License-Identifier: MIT */
/* Beside a library that takes locks in functions of libc (tests/posix/plugin/meddler.c): the interposer starts, and
 * locks, condition variables and read-write locks work, whatever the library's own locks make of the same functions. */
#include "tests/posix/posix.h"

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t c;
static long counter, reads;

/* The library takes its locks in each call, so several threads contend for them, too. */
static void *use(void *arg)
{
	struct timespec t;

	for (int i = 0; goes_on(i, 20000); i++) {
		ok(pthread_mutex_lock(&m));
		counter++;
		ok(pthread_mutex_unlock(&m));
		ok(clock_gettime(CLOCK_MONOTONIC, &t));
		ok(pthread_rwlock_wrlock(&rw));
		reads++;
		ok(pthread_rwlock_unlock(&rw));
		if (i % 100 == 0)
			sched_yield();
		++*(long *)arg;
	}
	return arg;
}

int main(void)
{
	const int *calls = dlsym(RTLD_DEFAULT, "meddler_calls");
	struct timespec soon;
	pthread_t threads[3];
	long done[3] = {0};
	int number = at_most(3);

	CHECK(calls, "the library is not loaded");
	ok(pthread_cond_init(&c, NULL));
	for (int i = 0; i < number; i++)
		threads[i] = check_thread(use, &done[i]);
	for (int i = 0; i < number; i++)
		check_join(threads[i]);
	CHECK_IS(counter, done[0] + done[1] + done[2]);
	CHECK_IS(reads, counter);
	ok(pthread_mutex_lock(&m));
	soon = from_now(CLOCK_REALTIME, 1000000);
	CHECK_IS(pthread_cond_timedwait(&c, &m, &soon), ETIMEDOUT);
	ok(pthread_mutex_unlock(&m));
	CHECK(*calls >= counter, "the library was called %d times", *calls);
	return 0;
}
