/* SPDX-License-Identifier: MIT */
/* Waiters that are awake, fall asleep, or are about to when their event comes: nothing is lost, none is taken for
 * another. Nothing here has a bounded sleep that would hide a lost wake-up: a thread that misses its event hangs. */
#include <sched.h>

#include "tests/posix/posix.h"

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;

/* Up to 64 us, most of it far less, and sometimes long enough that the other side sleeps. */
static void delay(unsigned int random)
{
	volatile unsigned int spins = random % 61 == 0 ? 60000 : (random >> 8) % (1u << random % 12);

	while (spins)
		spins--;
}

/* Two threads pass a turn, each with delays of its own before the signal, which is given with or without the mutex. */
static pthread_cond_t passed[2] = {PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER};
static int turn;
static bool over;

static void *play(void *argument)
{
	int me = (int)(long)argument;
	unsigned int random = 12345u + (unsigned int)me;
	bool last = false;

	for (int i = 0; !last; i++) {
		bool held;

		random = random * 1664525u + 1013904223u;
		held = random >> 31;
		delay(random >> 3);
		ok(pthread_mutex_lock(&m));
		while (turn != me)
			ok(pthread_cond_wait(&passed[me], &m));
		last = over = over || (me == 0 && !goes_on(i, 200000));
		turn = 1 - me;
		if (held)
			ok(pthread_cond_signal(&passed[1 - me]));
		ok(pthread_mutex_unlock(&m));
		if (!held)
			ok(pthread_cond_signal(&passed[1 - me]));
	}
	return NULL;
}

static void turns_are_passed(void)
{
	pthread_t other;

	turn = 0;
	other = check_thread(play, (void *)1l);
	play(NULL);
	check_join(other);
}

/* Producers and consumers: each signal is one item, so one that is lost leaves a consumer hanging at the end. */
#define EACH 4
static pthread_cond_t items_come = PTHREAD_COND_INITIALIZER;
static int items, left;

static void *consume(void *argument)
{
	unsigned int random = (unsigned int)(long)argument * 7919u;

	for (;;) {
		random = random * 1664525u + 1013904223u;
		delay(random >> 3);
		ok(pthread_mutex_lock(&m));
		while (!items && left)
			ok(pthread_cond_wait(&items_come, &m));
		if (!items)
			break;
		items--;
		ok(pthread_mutex_unlock(&m));
	}
	ok(pthread_mutex_unlock(&m));
	return NULL;
}

static void *produce(void *argument)
{
	unsigned int random = (unsigned int)(long)argument * 104729u;
	bool more = true;

	for (int i = 0; more; i++) {
		random = random * 1664525u + 1013904223u;
		delay(random >> 3);
		ok(pthread_mutex_lock(&m));
		if (left && !goes_on(i, 100000))
			left = 1;
		more = left > 0;
		if (more) {
			left--;
			items++;
			ok(left ? pthread_cond_signal(&items_come) : pthread_cond_broadcast(&items_come));
		}
		ok(pthread_mutex_unlock(&m));
	}
	return NULL;
}

static void items_are_consumed(void)
{
	pthread_t threads[2 * EACH];
	int each = at_most(2 * EACH) / 2;

	left = rounds(100000);
	for (int i = 0; i < 2 * each; i++)
		threads[i] = check_thread(i % 2 ? produce : consume, (void *)(long)(i + 1));
	for (int i = 0; i < 2 * each; i++)
		check_join(threads[i]);
	CHECK_IS(items, 0);
}

/* Deadlines that pass while the waiter is still awake: neither too early nor never. */
static void *wait_briefly(void *unused)
{
	pthread_cond_t c = PTHREAD_COND_INITIALIZER;

	for (int i = 0; goes_on(i, 1000); i++) {
		clockid_t clock = i % 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
		struct timespec soon;

		ok(pthread_mutex_lock(&m));
		soon = from_now(clock, i % 20 * 1000);
		CHECK_IS(pthread_cond_clockwait(&c, &m, clock, &soon), ETIMEDOUT);
		CHECK(reached(clock, &soon));
		ok(pthread_mutex_unlock(&m));
	}
	return unused;
}

/* A thread's first wait: it is cancelled at all distances from the beginning, awake or asleep. */
static int waiting;

static void unlock(void *argument)
{
	ok(pthread_mutex_unlock(argument));
}

static void *wait_for_ever(void *argument)
{
	pthread_cond_t *c = argument;

	ok(pthread_mutex_lock(&m));
	pthread_cleanup_push(unlock, &m);
	tell(&waiting, 1);
	for (;;)
		ok(pthread_cond_wait(c, &m));
	pthread_cleanup_pop(0);
	return NULL;
}

static void is_cancelled(void)
{
	for (int i = 0; goes_on(i, 3000); i++) {
		pthread_cond_t c = PTHREAD_COND_INITIALIZER;
		pthread_t thread;

		waiting = 0;
		thread = check_thread(wait_for_ever, &c);
		while (!__atomic_load_n(&waiting, __ATOMIC_ACQUIRE))
			sched_yield();
		delay((unsigned int)i * 2654435761u);
		ok(pthread_cancel(thread));
		CHECK(check_join(thread) == PTHREAD_CANCELED);
		ok(elsewhere(try_it, &m));
		ok(pthread_cond_destroy(&c));
	}
}

static void *wait_once(void *argument)
{
	ok(pthread_mutex_lock(&m));
	tell(&waiting, 1);
	ok(pthread_cond_wait(argument, &m));
	ok(pthread_mutex_unlock(&m));
	return NULL;
}

/* A thread's first wait, which no history keeps from staying awake. The signal comes 0 to about 20 us later, each time
 * by 1 to 3 ns more: at each instant of falling asleep. */
static void falling_asleep(void)
{
	static pthread_cond_t c = PTHREAD_COND_INITIALIZER;

	for (int i = 0; goes_on(i, 100000); i++) {
		volatile unsigned int left_to_go = (unsigned int)i % 10000;
		pthread_t thread;

		waiting = 0;
		thread = check_thread(wait_once, &c);
		while (!__atomic_load_n(&waiting, __ATOMIC_ACQUIRE))
			sched_yield();
		ok(pthread_mutex_lock(&m)); /* so it waits */
		ok(pthread_mutex_unlock(&m));
		while (left_to_go)
			left_to_go--;
		ok(pthread_cond_signal(&c));
		check_join(thread);
	}
}

/* A fork while a thread begins to wait: in the child nobody waits, in the parent the waiter is still there. */
static void forks(void)
{
	for (int i = 0; goes_on(i, 300); i++) {
		pthread_cond_t c = PTHREAD_COND_INITIALIZER;
		pthread_t thread;
		pid_t child;

		waiting = 0;
		thread = check_thread(wait_once, &c);
		while (!__atomic_load_n(&waiting, __ATOMIC_ACQUIRE))
			sched_yield();
		ok(pthread_mutex_lock(&m)); /* so it waits */
		child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			ok(pthread_cond_signal(&c));
			ok(pthread_mutex_unlock(&m));
			if (ours()) /* glibc's condition variable counts the dead */
				ok(pthread_cond_destroy(&c));
			_exit(0);
		}
		ok(pthread_cond_signal(&c));
		ok(pthread_mutex_unlock(&m));
		check_join(thread);
		reap(child);
	}
}

int main(void)
{
	turns_are_passed();
	items_are_consumed();
	ok(elsewhere(wait_briefly, NULL));
	falling_asleep();
	is_cancelled();
	forks();
	return 0;
}
