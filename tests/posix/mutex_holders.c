/* SPDX-License-Identifier: MIT */
/* Unusual holders: of very many mutexes, of one many times, one that has exited, one whose mutex another unlocks. */
#include "tests/posix/posix.h"

static void *lock_it(void *m)
{
	return (void *)(long)pthread_mutex_lock(m);
}

static void foreign_unlock(int kind)
{
	pthread_mutex_t m;

	init_kind(&m, kind);
	for (int i = 0; i < 100; i++) {
		ok(pthread_mutex_lock(&m));
		ok(elsewhere(unlock_it, &m));
		ok(elsewhere(lock_it, &m)); /* its holder has exited */
		CHECK_IS(pthread_mutex_trylock(&m), EBUSY);
		ok(pthread_mutex_unlock(&m));
		ok(elsewhere(try_it, &m));
	}
	ok(elsewhere(lock_it, &m));
	CHECK_IS(pthread_mutex_destroy(&m), EBUSY);
}

static void *nest(void *arg)
{
	static pthread_mutex_t m[1000];

	(void)arg;
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < 1000; i++)
			ok(pthread_mutex_lock(&m[i]));
		for (int i = 0; i < 1000; i++)
			CHECK_IS(pthread_mutex_trylock(&m[i]), EBUSY);
		for (int i = 0; i < 1000; i++) /* in, and against, the order of locking */
			ok(pthread_mutex_unlock(&m[round % 2 ? i : 999 - i]));
	}
	return NULL;
}

static void recursion(void)
{
	pthread_mutex_t m;

	init_kind(&m, PTHREAD_MUTEX_RECURSIVE);
	for (int i = 0; i < 300; i++)
		ok(pthread_mutex_lock(&m));
	for (int i = 0; i < 300; i++) {
		if (i % 50 == 0)
			CHECK_IS(elsewhere(try_it, &m), EBUSY);
		ok(pthread_mutex_unlock(&m));
	}
	CHECK_IS(pthread_mutex_unlock(&m), EPERM);
	ok(elsewhere(try_it, &m));
}

int main(void)
{
	foreign_unlock(PTHREAD_MUTEX_NORMAL);
	foreign_unlock(PTHREAD_MUTEX_ADAPTIVE_NP);
	ok(elsewhere(nest, NULL));
	ok(elsewhere(nest, NULL));
	recursion();
	return 0;
}
