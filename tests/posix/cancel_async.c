/* SPDX-License-Identifier: MIT */
/* Threads whose cancellation type is asynchronous are cancelled while they wait for a lock. No function of a lock
 * allows for that by POSIX, but under glibc it works for mutexes and condition variables: the thread ends at once,
 * without the lock, and other waiters go on. Ours does so at read-write locks, too. */
#include <semaphore.h>
#include <signal.h>

#include "tests/posix/posix.h"

#define LOOK_NS 20000000 /* at a thread that is to fall asleep; some locks only spin */

static pthread_mutex_t m, own = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
static int tid, ended;

static void lock(void)
{
	ok(pthread_mutex_lock(&m));
}

static void lock_in_time(void)
{
	struct timespec late = from_now(CLOCK_REALTIME, LONG_WAIT);

	ok(pthread_mutex_timedlock(&m, &late));
}

static void unlock(void)
{
	ok(pthread_mutex_unlock(&m));
}

static void read_lock(void)
{
	ok(pthread_rwlock_rdlock(&l));
}

static void write_lock(void)
{
	ok(pthread_rwlock_wrlock(&l));
}

static void rw_unlock(void)
{
	ok(pthread_rwlock_unlock(&l));
}

struct way {
	void (*take)(void), (*give)(void);
};

static void *victim(void *argument)
{
	const struct way *way = argument;

	ok(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL));
	tell(&tid, gettid());
	way->take();
	way->give();
	return NULL;
}

static void *successor(void *argument)
{
	const struct way *way = argument;

	tell(&tid, gettid());
	way->take();
	way->give();
	__atomic_fetch_add(&ended, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static pthread_t waiter(void *(*run)(void *), const struct way *way)
{
	struct timespec end;
	pthread_t thread;

	tid = 0;
	thread = check_thread(run, (void *)(uintptr_t)way);
	await(&tid, 1);
	end = from_now(CLOCK_MONOTONIC, LOOK_NS);
	while (!sleeps(tid) && !reached(CLOCK_MONOTONIC, &end))
		sched_yield();
	return thread;
}

/* The lock is held: the victim ends before it is free, and the threads before and behind it get it. */
static void waits(void (*hold)(void), void (*release)(void), const struct way *way)
{
	pthread_t first, second, third;

	ended = 0;
	hold();
	first = waiter(successor, way);
	second = waiter(victim, way);
	third = waiter(successor, way);
	ok(pthread_cancel(second));
	CHECK(check_join(second) == PTHREAD_CANCELED);
	CHECK_IS(ended, 0);
	release();
	check_join(first);
	check_join(third);
	hold(); /* it is free */
	release();
	CHECK(check_join(check_thread(victim, (void *)(uintptr_t)way)) == NULL); /* not cancelled */
}

/* Cancelled as the lock becomes free: the victim may have it, or end without it. */
static void races(void (*hold)(void), void (*release)(void), const struct way *way)
{
	pthread_t first, second;

	hold();
	first = waiter(victim, way);
	second = waiter(successor, way);
	ok(pthread_cancel(first));
	release();
	check_join(first);
	check_join(second);
	hold();
	release();
}

static void mutex(int kind)
{
	const struct way ways[] = {{lock, unlock}, {lock_in_time, unlock}};

	init_kind(&m, kind);
	for (int i = 0; i < rounds(6); i++)
		waits(lock, unlock, &ways[i % 2]);
	ok(pthread_mutex_destroy(&m));
}

static void rwlock(void)
{
	const struct way ways[] = {{read_lock, rw_unlock}, {write_lock, rw_unlock}};

	for (int i = 0; i < rounds(6); i++) {
		waits(write_lock, rw_unlock, &ways[i % 2]);
		waits(read_lock, rw_unlock, &ways[1]);
		races(write_lock, rw_unlock, &ways[i % 2]);
	}
}

static void unlock_own(void *unused)
{
	(void)unused;
	ok(pthread_mutex_unlock(&own));
}

static void *wait_on_cond(void *type)
{
	ok(pthread_setcanceltype((int)(long)type, NULL));
	ok(pthread_mutex_lock(&own));
	pthread_cleanup_push(unlock_own, NULL);
	tell(&tid, gettid());
	ok(pthread_cond_wait(&c, &own));
	pthread_cleanup_pop(1);
	return NULL;
}

static void condition(void)
{
	pthread_t cancelled, other;

	for (int i = 0; i < rounds(50); i++) {
		tid = 0;
		cancelled = check_thread(wait_on_cond, (void *)(long)PTHREAD_CANCEL_ASYNCHRONOUS);
		await(&tid, 1);
		tid = 0;
		other = check_thread(wait_on_cond, (void *)(long)PTHREAD_CANCEL_DEFERRED);
		await(&tid, 1);
		ok(pthread_mutex_lock(&own)); /* so both wait */
		ok(pthread_mutex_unlock(&own));
		ok(pthread_cancel(cancelled));
		CHECK(check_join(cancelled) == PTHREAD_CANCELED);
		ok(pthread_mutex_lock(&own));
		ok(pthread_cond_signal(&c));
		ok(pthread_mutex_unlock(&own));
		check_join(other);
	}
}

static void *destroy_busy(void *unused)
{
	ok(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL));
	tell(&tid, 1);
	for (;;)
		CHECK_IS(pthread_cond_destroy(&c), EBUSY);
	return unused;
}

/* Cancelled while it looks whether somebody waits. */
static void busy_condition(void)
{
	pthread_t other, cancelled;

	tid = 0;
	other = check_thread(wait_on_cond, (void *)(long)PTHREAD_CANCEL_DEFERRED);
	await(&tid, 1);
	ok(pthread_mutex_lock(&own)); /* so it waits */
	ok(pthread_mutex_unlock(&own));
	for (int i = 0; i < rounds(300); i++) {
		tid = 0;
		cancelled = check_thread(destroy_busy, NULL);
		await(&tid, 1);
		ok(pthread_cancel(cancelled));
		CHECK(check_join(cancelled) == PTHREAD_CANCELED);
		CHECK_IS(pthread_cond_destroy(&c), EBUSY);
	}
	ok(pthread_cond_signal(&c));
	check_join(other);
}

static sem_t no_token;
static int blocked;

static void look_at_mask(void *unused)
{
	sigset_t mask;

	(void)unused;
	ok(pthread_sigmask(SIG_BLOCK, NULL, &mask));
	blocked += sigismember(&mask, SIGUSR1);
}

static void *wait_for_token(void *unused)
{
	ok(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL));
	pthread_cleanup_push(look_at_mask, NULL);
	tell(&tid, 1);
	ok(sem_wait(&no_token));
	pthread_cleanup_pop(0);
	return unused;
}

/* Cancelled as it begins to wait: its cleanup handler finds the signal mask of the program. */
static void semaphore(void)
{
	ok(sem_init(&no_token, 0, 0));
	for (int i = 0; i < rounds(500); i++) {
		pthread_t thread;

		tid = 0;
		thread = check_thread(wait_for_token, NULL);
		while (!__atomic_load_n(&tid, __ATOMIC_ACQUIRE))
			;
		ok(pthread_cancel(thread));
		CHECK(check_join(thread) == PTHREAD_CANCELED);
		CHECK_IS(blocked, 0);
	}
	ok(sem_destroy(&no_token));
}

static void type_is_told(void)
{
	int old;

	ok(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old));
	CHECK_IS(old, PTHREAD_CANCEL_DEFERRED);
	CHECK_IS(pthread_setcanceltype(4711, NULL), EINVAL);
	init_kind(&m, PTHREAD_MUTEX_NORMAL);
	lock();
	unlock();
	ok(pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &old));
	CHECK_IS(old, PTHREAD_CANCEL_ASYNCHRONOUS);
}

int main(void)
{
	type_is_told();
	mutex(PTHREAD_MUTEX_NORMAL);
	mutex(PTHREAD_MUTEX_RECURSIVE);
	mutex(PTHREAD_MUTEX_ERRORCHECK);
	condition();
	semaphore();
	if (ours()) { /* under glibc these are not usable afterwards */
		rwlock();
		busy_condition();
	}
	return 0;
}
