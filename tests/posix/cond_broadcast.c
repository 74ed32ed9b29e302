/* SPDX-License-Identifier: MIT */
/* A broadcast releases all; and as soon as it has returned, the condition variable may be destroyed and its memory
 * unmapped, though no waiter has run yet. */
#include <sys/mman.h>

#include "tests/posix/posix.h"

#define WAITERS 64

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t *c;
static int waiting, released;
static long deadline_ns; /* 0: none */

/* Overwrites the stack of the wait that has just ended, so that a late access to it shows. */
__attribute__((noinline)) static void scribble(void)
{
	volatile char stack[2048];

	for (size_t i = 0; i < sizeof(stack); i++)
		stack[i] = (char)0xff;
}

static void *wait_once(void *arg)
{
	struct timespec t = from_now(CLOCK_MONOTONIC, deadline_ns);
	pthread_cond_t *cond = c;
	int result;

	(void)arg;
	ok(pthread_mutex_lock(&m));
	tell(&waiting, waiting + 1);
	result = deadline_ns ? pthread_cond_clockwait(cond, &m, CLOCK_MONOTONIC, &t) : pthread_cond_wait(cond, &m);
	scribble();
	CHECK(result == 0 || (result == ETIMEDOUT && deadline_ns));
	tell(&released, released + 1);
	ok(pthread_mutex_unlock(&m));
	return NULL;
}

/* On a page of its own, which is gone before the waiters can run: they need the mutex. */
static void round_of(int n, bool signals)
{
	pthread_t threads[WAITERS];

	c = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(c != MAP_FAILED);
	ok(pthread_cond_init(c, NULL));
	waiting = released = 0;
	for (int i = 0; i < n; i++)
		threads[i] = check_thread(wait_once, NULL);
	await(&waiting, n);
	ok(pthread_mutex_lock(&m));
	if (!deadline_ns)
		CHECK_IS(released, 0);
	if (signals)
		for (int i = 0; i < n; i++)
			ok(pthread_cond_signal(c));
	else
		ok(pthread_cond_broadcast(c));
	ok(pthread_cond_destroy(c));
	ok(munmap(c, 4096));
	ok(pthread_mutex_unlock(&m));
	for (int i = 0; i < n; i++)
		check_join(threads[i]);
	CHECK_IS(released, n);
}

/* The mutex is free, so waiters go off while the broadcast goes through the others; some just time out. */
static void in_passing(int n, bool timeouts)
{
	static pthread_cond_t lasting = PTHREAD_COND_INITIALIZER;
	pthread_t threads[WAITERS];

	c = &lasting;
	waiting = released = 0;
	deadline_ns = timeouts ? 4000000 : 0;
	for (int i = 0; i < n; i++)
		threads[i] = check_thread(wait_once, NULL);
	await(&waiting, n);
	ok(pthread_mutex_lock(&m)); /* so the last one waits, too */
	ok(pthread_mutex_unlock(&m));
	ok(pthread_cond_broadcast(c));
	for (int i = 0; i < n; i++)
		check_join(threads[i]);
	CHECK_IS(released, n);
}

int main(void)
{
	int many = at_most(WAITERS);

	for (int i = 0; i < 20; i++)
		round_of(many, i % 2);
	for (int i = 0; goes_on(i, 100); i++)
		in_passing(many, i % 2);
	deadline_ns = 0;
	for (int i = 0; goes_on(i, 1000); i++)
		round_of(1 + i % 2, i % 3 == 0);
	for (int i = 0; goes_on(i, 2000); i++) { /* the deadlines pass about when the broadcast comes */
		deadline_ns = 20000 + i % 100 * 2000;
		round_of(2, false);
	}
	return 0;
}
