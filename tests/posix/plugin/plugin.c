/* SPDX-License-Identifier: MIT */
/* A library that early.c loads late: it locks in its constructor, in threads of its own, and in its destructor. */
#include "tests/posix/posix.h"

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static int constructed, counter;

__attribute__((constructor)) static void load(void)
{
	ok(pthread_mutex_lock(&m));
	constructed = 1;
	ok(pthread_mutex_unlock(&m));
}

__attribute__((destructor)) static void unload(void)
{
	ok(pthread_mutex_lock(&m));
	constructed = 0;
	ok(pthread_mutex_unlock(&m));
}

static void *count(void *arg)
{
	for (int i = 0; i < 2000; i++) {
		ok(pthread_mutex_lock(&m));
		counter++;
		ok(pthread_mutex_unlock(&m));
	}
	return arg;
}

int plugin_work(void)
{
	pthread_t other = check_thread(count, NULL);

	count(NULL);
	check_join(other);
	return constructed ? counter : -1;
}
