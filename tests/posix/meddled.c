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

/* More than there are notes of such releases, and queue nodes at first: the lock asks for memory. */
#define MANY 3000

static void *release(void *many)
{
	for (int i = 0; i < MANY; i++)
		ok(pthread_mutex_unlock((pthread_mutex_t *)many + i));
	return NULL;
}

static void release_elsewhere(void)
{
	static pthread_mutex_t many[MANY];

	for (int i = 0; i < MANY; i++) {
		ok(pthread_mutex_init(&many[i], NULL));
		ok(pthread_mutex_lock(&many[i]));
	}
	check_join(check_thread(release, many));
}

/* Beside a socket at which nobody listens, until waiters have tried again to register (FLEXGUARD_RECONNECT=1). */
static void *contend(void *until)
{
	struct timespec t;

	do {
		for (int i = 0; i < 100; i++) {
			ok(pthread_mutex_lock(&m));
			sched_yield();
			ok(pthread_mutex_unlock(&m));
		}
		ok(clock_gettime(CLOCK_MONOTONIC, &t));
	} while (t.tv_sec < *(time_t *)until);
	return NULL;
}

static void contend_for_long(void)
{
	struct timespec now;
	pthread_t threads[3];
	time_t until;

	ok(clock_gettime(CLOCK_MONOTONIC, &now));
	until = now.tv_sec + 3;
	for (int i = 0; i < 3; i++)
		threads[i] = check_thread(contend, &until);
	for (int i = 0; i < 3; i++)
		check_join(threads[i]);
}

int main(int argc, char **argv)
{
	const int *calls = dlsym(RTLD_DEFAULT, "meddler_calls");
	const int *system_calls = dlsym(RTLD_DEFAULT, "meddler_system_calls");
	char *const *last = dlsym(RTLD_DEFAULT, "meddler_system_call");
	int before;
	struct timespec soon;
	pthread_t threads[3];
	long done[3] = {0};
	int number = at_most(3);

	CHECK(calls && system_calls && last, "the library is not loaded");
	before = *system_calls;
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
	release_elsewhere();
	if (argc > 1 && strcmp(argv[1], "long") == 0)
		contend_for_long();
	CHECK(*system_calls == before, "it calls %s", *last);
	CHECK(*calls >= counter, "the library was called %d times", *calls);
	return 0;
}
