/* SPDX-License-Identifier: MIT */
/* Of threads that wait the one with the highest priority is served first, and of those with the same priority the one
 * that came first: at a mutex, at a condition variable, and of the writers at a read-write lock. And a real-time thread
 * that waits for an ordinary one on its CPU lets it run.
 *
 * All threads share a CPU. The main thread is an ordinary one while the others, with real-time policies, begin to wait:
 * when it runs again they sleep. While it gives them what they wait for it comes before all of them, so none that wakes
 * by itself can take anything in between. */
#include <sched.h>

#include "tests/posix/posix.h"

#define WAITERS 8
static const int priorities[WAITERS] = {3, 1, 5, 5, 2, 6, 2, 4}; /* in order of arrival */
static const int in_turn[WAITERS] = {5, 2, 3, 7, 0, 4, 6, 1};    /* the order in which they are to be served */

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;

static pthread_t threads[WAITERS];
static pid_t tids[WAITERS];
static int served[WAITERS], total; /* by what is waited for */

static void is_served(void *argument)
{
	served[total] = (int)(long)argument;
	tell(&total, total + 1);
}

static void *wait_for_mutex(void *argument)
{
	tell(&tids[(long)argument], gettid());
	ok(pthread_mutex_lock(&m));
	is_served(argument);
	ok(pthread_mutex_unlock(&m));
	return NULL;
}

static void *wait_for_signal(void *argument)
{
	ok(pthread_mutex_lock(&m));
	tell(&tids[(long)argument], gettid());
	ok(pthread_cond_wait(&c, &m));
	is_served(argument);
	ok(pthread_mutex_unlock(&m));
	return NULL;
}

static void *wait_to_write(void *argument)
{
	tell(&tids[(long)argument], gettid());
	ok(pthread_rwlock_wrlock(&rw));
	is_served(argument);
	ok(pthread_rwlock_unlock(&rw));
	return NULL;
}

static void set_priority(int priority)
{
	struct sched_param param = {.sched_priority = priority};

	ok(pthread_setschedparam(pthread_self(), priority ? SCHED_FIFO : SCHED_OTHER, &param));
}

/* Each begins to wait, and sleeps, before the next. */
static void start(void *(*run)(void *))
{
	pthread_attr_t attr;

	ok(pthread_attr_init(&attr));
	ok(pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED));
	total = 0;
	for (long i = 0; i < WAITERS; i++) {
		struct sched_param param = {.sched_priority = priorities[i]};

		ok(pthread_attr_setschedpolicy(&attr, i % 2 ? SCHED_RR : SCHED_FIFO));
		ok(pthread_attr_setschedparam(&attr, &param));
		tell(&tids[i], 0);
		ok(pthread_create(&threads[i], &attr, run, (void *)i));
		await(&tids[i], 1);
		while (!sleeps(tids[i]))
			sched_yield();
	}
	ok(pthread_attr_destroy(&attr));
	CHECK_IS(total, 0);
}

static void were_served_in_turn(const char *at)
{
	for (int i = 0; i < WAITERS; i++)
		check_join(threads[i]);
	CHECK_IS(total, WAITERS);
	for (int i = 0; i < WAITERS; i++)
		CHECK(served[i] == in_turn[i],
		      "%s, turn %d: waiter %d of priority %d instead of waiter %d of priority %d", at, i, served[i],
		      priorities[served[i]], in_turn[i], priorities[in_turn[i]]);
}

/* Other locks have queues, with an order of their own. */
static bool mutex_has_futex_order(void)
{
	const char *lock = getenv("FG_TEST_LOCK");

	return !ours() || (lock && (strcmp(lock, "flexguard") == 0 || strcmp(lock, "futex") == 0));
}

/* However long the mutex is held: a waiter that wakes by itself, and sleeps again, must not lose its place. */
static void test_mutex(useconds_t held_us)
{
	ok(pthread_mutex_lock(&m));
	start(wait_for_mutex);
	usleep(held_us);
	set_priority(99);
	ok(pthread_mutex_unlock(&m));
	set_priority(0);
	were_served_in_turn("mutex");
}

/* One signal, one waiter: the others still sleep when it has been served. */
static void test_signals(bool held)
{
	start(wait_for_signal);
	for (int i = 0; i < WAITERS; i++) {
		set_priority(99);
		ok(pthread_mutex_lock(&m));
		CHECK_IS(total, i);
		if (held)
			ok(pthread_cond_signal(&c));
		ok(pthread_mutex_unlock(&m));
		if (!held)
			ok(pthread_cond_signal(&c));
		set_priority(0);
		await(&total, i + 1);
	}
	were_served_in_turn(held ? "signal with the mutex" : "signal");
}

/* A waiter that is woken runs at once, before the next is woken. */
static void test_broadcast(void)
{
	start(wait_for_signal);
	ok(pthread_cond_broadcast(&c));
	were_served_in_turn("broadcast");
}

/* All are released while none can go on: they sleep again, at the mutex, and it is the unlocks that choose. */
static void test_unlocks(bool broadcast)
{
	start(wait_for_signal);
	ok(pthread_mutex_lock(&m));
	if (broadcast)
		ok(pthread_cond_broadcast(&c));
	else
		for (int i = 0; i < WAITERS; i++)
			ok(pthread_cond_signal(&c));
	for (int i = 0; i < WAITERS; i++)
		while (!sleeps(tids[i]))
			sched_yield();
	set_priority(99);
	ok(pthread_mutex_unlock(&m));
	set_priority(0);
	were_served_in_turn(broadcast ? "broadcast with the mutex" : "signals with the mutex");
}

static void test_writers(void)
{
	ok(pthread_rwlock_wrlock(&rw));
	start(wait_to_write);
	set_priority(99);
	ok(pthread_rwlock_unlock(&rw));
	set_priority(0);
	were_served_in_turn("read-write lock");
}

static pthread_barrier_t barrier;

static void *arrive(void *argument)
{
	tell(&tids[0], gettid());
	pthread_barrier_wait(&barrier);
	return argument;
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The thread that destroys the barrier lets the ordinary one leave it, which needs its CPU. The kernel takes the CPU
 * from a real-time thread after 950 ms. */
static void test_barrier(void)
{
	pthread_t other;
	uint64_t began;

	ok(pthread_barrier_init(&barrier, NULL, 2));
	tell(&tids[0], 0);
	other = check_thread(arrive, NULL);
	await(&tids[0], 1);
	while (!sleeps(tids[0]))
		sched_yield();
	set_priority(99);
	began = cpu_ns();
	pthread_barrier_wait(&barrier);
	ok(pthread_barrier_destroy(&barrier));
	began = cpu_ns() - began;
	set_priority(0);
	CHECK(began < 200000000, "%d ms", (int)(began / 1000000));
	check_join(other);
}

int main(void)
{
	struct sched_param lowest = {.sched_priority = 1}, usual = {0};
	int cpu = sched_getcpu();
	cpu_set_t set;

	if (sched_setscheduler(0, SCHED_FIFO, &lowest) != 0)
		return 77; /* not root */
	ok(sched_setscheduler(0, SCHED_OTHER, &usual));
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	ok(sched_setaffinity(0, sizeof(set), &set));
	test_signals(false);
	test_signals(true);
	test_broadcast();
	test_writers();
	test_barrier();
	if (mutex_has_futex_order()) {
		for (useconds_t held_us = 0; held_us <= 8000; held_us += 500)
			test_mutex(held_us);
		test_unlocks(true);
		test_unlocks(false);
	}
	return 0;
}
