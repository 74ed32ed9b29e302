/* SPDX-License-Identifier: MIT */
/* A library that loading.c loads and unloads again and again: its constructor locks against a thread that it starts,
 * and its destructor ends that thread. */
#include "tests/posix/posix.h"

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
static pthread_t worker;
static pthread_key_t key;
static int rounds_done, ends, destroyed;

static void destroy(void *unused)
{
	(void)unused;
	ok(pthread_mutex_lock(&m));
	destroyed++;
	ok(pthread_mutex_unlock(&m));
}

static void *work(void *argument)
{
	ok(pthread_setspecific(key, &key));
	ok(pthread_mutex_lock(&m));
	while (!ends) {
		rounds_done++;
		ok(pthread_rwlock_rdlock(&l));
		ok(pthread_cond_broadcast(&c));
		ok(pthread_rwlock_unlock(&l));
		ok(pthread_mutex_unlock(&m));
		ok(pthread_mutex_lock(&m));
	}
	ok(pthread_mutex_unlock(&m));
	return argument;
}

static void await_round(void)
{
	int before;

	ok(pthread_mutex_lock(&m));
	before = rounds_done;
	while (rounds_done == before)
		ok(pthread_cond_wait(&c, &m));
	ok(pthread_mutex_unlock(&m));
}

__attribute__((constructor)) static void load(void)
{
	ok(pthread_key_create(&key, destroy));
	worker = check_thread(work, NULL);
	await_round();
	ok(pthread_rwlock_wrlock(&l));
	ok(pthread_rwlock_unlock(&l));
}

__attribute__((destructor)) static void unload(void)
{
	await_round();
	ok(pthread_mutex_lock(&m));
	ends = 1;
	ok(pthread_mutex_unlock(&m));
	check_join(worker);
	CHECK_IS(destroyed, 1);
	ok(pthread_key_delete(key));
}

int loaded_rounds(void)
{
	int n;

	await_round();
	ok(pthread_mutex_lock(&m));
	n = rounds_done;
	ok(pthread_mutex_unlock(&m));
	return n;
}
