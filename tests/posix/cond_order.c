/* SPDX-License-Identifier: MIT */
/* A signal releases one thread that was already waiting: no later arrival takes it, none is kept for later. */
#include "tests/posix/posix.h"

#define WAITERS 16

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int arrived, woken, order[WAITERS];

/* A thread that sees `arrived` raised and then gets the mutex knows that the other thread waits. */
static void *queue_up(void *arg)
{
	ok(pthread_mutex_lock(&m));
	tell(&arrived, arrived + 1);
	ok(pthread_cond_wait(&c, &m));
	order[woken] = (int)(long)arg;
	tell(&woken, woken + 1);
	ok(pthread_mutex_unlock(&m));
	return NULL;
}

static void all_wait(int n)
{
	await(&arrived, n);
	ok(pthread_mutex_lock(&m));
	ok(pthread_mutex_unlock(&m));
}

static void in_order_of_arrival(bool holding)
{
	pthread_t threads[WAITERS];

	arrived = woken = 0;
	for (int i = 0; i < WAITERS; i++) {
		threads[i] = check_thread(queue_up, (void *)(long)i);
		all_wait(i + 1);
	}
	for (int i = 0; i < WAITERS; i++) {
		if (holding)
			ok(pthread_mutex_lock(&m));
		ok(pthread_cond_signal(&c));
		if (holding)
			ok(pthread_mutex_unlock(&m));
		await(&woken, i + 1);
		ok(pthread_mutex_lock(&m));
		if (ours()) { /* glibc's order within a group is another, and POSIX leaves it open */
			CHECK_IS(woken, i + 1);
			CHECK_IS(order[i], i);
		}
		ok(pthread_mutex_unlock(&m));
	}
	for (int i = 0; i < WAITERS; i++)
		check_join(threads[i]);
}

/* The signaller waits itself, in the same critical section: it comes later than its own signal. */
static void not_stolen(void)
{
	for (int round = 0; round < 300; round++) {
		struct timespec soon;
		pthread_t waiter;
		int result;

		arrived = woken = 0;
		waiter = check_thread(queue_up, NULL);
		all_wait(1);
		ok(pthread_mutex_lock(&m));
		ok(pthread_cond_signal(&c));
		soon = from_now(CLOCK_MONOTONIC, 200000);
		result = pthread_cond_clockwait(&c, &m, CLOCK_MONOTONIC, &soon);
		if (ours())
			CHECK_IS(result, ETIMEDOUT);
		ok(pthread_mutex_unlock(&m));
		check_join(waiter);
		CHECK_IS(woken, 1);
	}
}

static void not_banked(void)
{
	for (int round = 0; round < 20; round++) {
		struct timespec soon;

		for (int i = 0; i < 100; i++) {
			ok(pthread_cond_signal(&c));
			ok(pthread_cond_broadcast(&c));
		}
		ok(pthread_mutex_lock(&m));
		soon = from_now(CLOCK_MONOTONIC, 200000);
		CHECK_IS(pthread_cond_clockwait(&c, &m, CLOCK_MONOTONIC, &soon), ETIMEDOUT);
		ok(pthread_mutex_unlock(&m));
	}
}

/* Some leave from the middle, both ends and all over of the list; the others are still found, in order. */
static void *give_up(void *arg)
{
	struct timespec soon = from_now(CLOCK_MONOTONIC, 1000000);

	(void)arg;
	ok(pthread_mutex_lock(&m));
	tell(&arrived, arrived + 1);
	CHECK_IS(pthread_cond_clockwait(&c, &m, CLOCK_MONOTONIC, &soon), ETIMEDOUT);
	ok(pthread_mutex_unlock(&m));
	return NULL;
}

static void leavers(unsigned int who_leaves)
{
	pthread_t threads[4];
	int stay = 0;

	arrived = woken = 0;
	for (int i = 0; i < 4; i++) {
		threads[i] = check_thread(who_leaves >> i & 1 ? give_up : queue_up, (void *)(long)stay);
		stay += !(who_leaves >> i & 1);
		await(&arrived, i + 1);
	}
	for (int i = 0; i < 4; i++)
		if (who_leaves >> i & 1)
			check_join(threads[i]);
	for (int i = 0; i < stay; i++) {
		all_wait(4);
		ok(pthread_cond_signal(&c));
		await(&woken, i + 1);
		if (ours())
			CHECK_IS(order[i], i);
	}
	for (int i = 0; i < 4; i++)
		if (!(who_leaves >> i & 1))
			check_join(threads[i]);
	CHECK_IS(woken, stay);
	ok(pthread_cond_destroy(&c));
	ok(pthread_cond_init(&c, NULL));
}

static void destroy_with_waiters(void)
{
	pthread_t waiter;

	if (!ours()) /* glibc waits for them */
		return;
	arrived = woken = 0;
	waiter = check_thread(queue_up, NULL);
	all_wait(1);
	CHECK_IS(pthread_cond_destroy(&c), EBUSY);
	ok(pthread_cond_signal(&c));
	check_join(waiter);
	ok(pthread_cond_destroy(&c));
}

int main(void)
{
	not_banked();
	in_order_of_arrival(false);
	in_order_of_arrival(true);
	not_stolen();
	for (unsigned int who = 0; who < 16; who++)
		leavers(who);
	not_banked();
	destroy_with_waiters();
	return 0;
}
