/* SPDX-License-Identifier: MIT */
/* For debugged.sh: a thread holds a mutex for which two wait, and another mutex is free. */
#include "tests/posix/posix.h"

pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static int tids[2];

static void *wait_for_it(void *arg)
{
	tell(arg, gettid());
	ok(pthread_mutex_lock(&m));
	ok(pthread_mutex_unlock(&m));
	return NULL;
}

/* A debugger stops here. */
__attribute__((noinline)) void all_wait(void)
{
	__asm__ volatile("");
}

int main(void)
{
	pthread_t threads[2];

	ok(pthread_mutex_lock(&m));
	for (int i = 0; i < 2; i++) {
		threads[i] = check_thread(wait_for_it, &tids[i]);
		await(&tids[i], 1);
		while (!sleeps(tids[i]))
			sched_yield();
	}
	all_wait();
	ok(pthread_mutex_unlock(&m));
	for (int i = 0; i < 2; i++)
		check_join(threads[i]);
	return 0;
}
