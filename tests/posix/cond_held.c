/* SPDX-License-Identifier: MIT */
/* Signals and broadcasts that are given with the mutex held: the waiters go on when any thread unlocks it, and
 * whatever happens in between. */

#include "tests/posix/posix.h"

#define WAITERS 8

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int waiting, released;

static void *wait_once(void *unused)
{
	ok(pthread_mutex_lock(&m));
	tell(&waiting, waiting + 1);
	ok(pthread_cond_wait(&c, &m));
	tell(&released, released + 1);
	ok(pthread_mutex_unlock(&m));
	return unused;
}

/* Returns with the mutex held and n threads waiting. */
static void waiters(pthread_t *threads, int n)
{
	waiting = released = 0;
	for (int i = 0; i < n; i++) {
		threads[i] = check_thread(wait_once, NULL);
		await(&waiting, i + 1);
	}
	ok(pthread_mutex_lock(&m));
}

static int in_flight(void)
{
	return ours() ? ((const uint16_t *)(const void *)&m)[2] : 0; /* struct fgi_due */
}

static void all_go_on(pthread_t *threads, int n)
{
	for (int i = 0; i < n; i++)
		check_join(threads[i]);
	CHECK_IS(released, n);
	CHECK_IS(in_flight(), 0);
}

static void at_the_unlock(int n, bool broadcast)
{
	pthread_t threads[WAITERS];

	waiters(threads, n);
	if (broadcast)
		ok(pthread_cond_broadcast(&c));
	else
		for (int i = 0; i < n; i++)
			ok(pthread_cond_signal(&c));
	ok(pthread_cond_signal(&c)); /* to nobody */
	ok(pthread_cond_destroy(&c));
	memset(&c, 0xff, sizeof(c)); /* nobody looks there any more */
	CHECK_IS(released, 0);
	ok(pthread_mutex_unlock(&m));
	all_go_on(threads, n);
	memset(&c, 0, sizeof(c));
}

/* With a second mutex in between, in both orders. */
static void with_another_mutex(bool inner)
{
	pthread_t threads[WAITERS];

	waiters(threads, 2);
	if (inner)
		ok(pthread_mutex_lock(&other));
	ok(pthread_cond_broadcast(&c));
	if (!inner)
		ok(pthread_mutex_lock(&other));
	ok(pthread_mutex_unlock(&m));
	all_go_on(threads, 2);
	ok(pthread_mutex_unlock(&other));
}

/* A thread that unlocks what another has locked: of a normal mutex glibc lets it. */
static void unlocked_elsewhere(void)
{
	pthread_t threads[WAITERS];

	waiters(threads, 2);
	ok(pthread_cond_broadcast(&c));
	ok(elsewhere(unlock_it, &m));
	all_go_on(threads, 2);
	waiters(threads, 2);
	ok(elsewhere(unlock_it, &m));
	ok(pthread_cond_broadcast(&c)); /* by a thread that locked the mutex and no longer holds it */
	all_go_on(threads, 2);
}

/* The signaller waits itself: that unlocks, too. */
static void by_waiting(void)
{
	struct timespec soon;
	pthread_t threads[WAITERS];

	waiters(threads, 3);
	ok(pthread_cond_broadcast(&c));
	soon = from_now(CLOCK_MONOTONIC, 1000000);
	CHECK_IS(pthread_cond_clockwait(&c, &m, CLOCK_MONOTONIC, &soon), ETIMEDOUT);
	ok(pthread_mutex_unlock(&m));
	all_go_on(threads, 3);
}

/* The deadline passes between the signal and the unlock: the wait has ended by the signal. */
static struct timespec deadline;

static void *wait_with_deadline(void *unused)
{
	long result;

	(void)unused;
	ok(pthread_mutex_lock(&m));
	deadline = from_now(CLOCK_MONOTONIC, 20000000);
	tell(&waiting, 1);
	result = pthread_cond_clockwait(&c, &m, CLOCK_MONOTONIC, &deadline);
	ok(pthread_mutex_unlock(&m));
	return (void *)result;
}

static void past_the_deadline(void)
{
	pthread_t thread;
	bool in_time;
	long result;

	waiting = 0;
	thread = check_thread(wait_with_deadline, NULL);
	await(&waiting, 1);
	ok(pthread_mutex_lock(&m));
	ok(pthread_cond_signal(&c));
	in_time = !reached(CLOCK_MONOTONIC, &deadline); /* otherwise the waiter may have left before */
	while (!reached(CLOCK_MONOTONIC, &deadline))
		;
	ok(pthread_mutex_unlock(&m));
	result = (long)check_join(thread);
	if (ours() && in_time) /* glibc prefers the deadline */
		ok(result);
}

/* Cancelled between the signal and the unlock: the signal goes to the next. */
static void *wait_cancelled(void *argument)
{
	pthread_cleanup_push((void (*)(void *))(void *)pthread_mutex_unlock, &m);
	ok(pthread_mutex_lock(&m));
	tell(&waiting, waiting + 1);
	ok(pthread_cond_wait(&c, &m));
	tell(&released, released + 1);
	pthread_cleanup_pop(1);
	return argument;
}

static void cancelled(void)
{
	pthread_t victim, successor;

	waiting = released = 0;
	victim = check_thread(wait_cancelled, NULL);
	await(&waiting, 1);
	successor = check_thread(wait_cancelled, NULL);
	await(&waiting, 2);
	ok(pthread_mutex_lock(&m));
	ok(pthread_cond_signal(&c));
	ok(pthread_cancel(victim));
	ok(pthread_mutex_unlock(&m));
	if (check_join(victim) != PTHREAD_CANCELED) {
		ok(pthread_mutex_lock(&m));
		ok(pthread_cond_signal(&c));
		ok(pthread_mutex_unlock(&m));
	}
	check_join(successor); /* hangs if the signal is lost */
}

/* A thread of the child gets the stack of one that stayed in the parent. */
static void *overwrite_the_stack(void *unused)
{
	volatile char stack[16384];

	for (size_t i = 0; i < sizeof(stack); i++)
		stack[i] = (char)0xff;
	return unused;
}

/* Threads that are woken and do not come: they are in a signal handler. The others go on, although no thread uses the
 * mutex any more. glibc wakes all at once. */
static int stuck, leave;

static void stay(int unused)
{
	(void)unused;
	__atomic_fetch_add(&stuck, 1, __ATOMIC_SEQ_CST);
	await(&leave, 1);
}

static void held_up(void)
{
	pthread_t threads[WAITERS];

	stuck = leave = 0;
	waiters(threads, 5);
	ok(pthread_mutex_unlock(&m));
	for (int i = 0; i < 2; i++) {
		ok(pthread_kill(threads[i], SIGUSR1));
		await(&stuck, i + 1);
	}
	ok(pthread_mutex_lock(&m));
	ok(pthread_cond_broadcast(&c));
	ok(pthread_mutex_unlock(&m));
	await(&released, 3);
	tell(&leave, 1);
	all_go_on(threads, 5);
}

/* The child has the mutex, but not the waiters. */
static void in_a_child(void)
{
	pthread_t threads[WAITERS];
	pid_t child;

	waiters(threads, 2);
	ok(pthread_cond_broadcast(&c));
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		pthread_t writers[2];

		for (int i = 0; i < 2; i++)
			writers[i] = check_thread(overwrite_the_stack, NULL);
		for (int i = 0; i < 2; i++)
			check_join(writers[i]);
		ok(pthread_mutex_unlock(&m));
		ok(pthread_mutex_lock(&m));
		ok(pthread_cond_broadcast(&c));
		ok(pthread_mutex_unlock(&m));
		_exit(0);
	}
	ok(pthread_mutex_unlock(&m));
	all_go_on(threads, 2);
	reap(child);
}

int main(void)
{
	int many = at_most(WAITERS);

	for (int i = 0; goes_on(i, 200); i++) {
		if (ours())
			at_the_unlock(1 + i % many, i % 2);
		with_another_mutex(i % 2);
		unlocked_elsewhere();
		by_waiting();
		cancelled();
	}
	signal(SIGUSR1, stay);
	for (int i = 0; goes_on(i, 20); i++) {
		held_up();
		past_the_deadline();
		in_a_child();
	}
	return 0;
}
