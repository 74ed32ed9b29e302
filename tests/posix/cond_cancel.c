/* SPDX-License-Identifier: MIT */
/* Waiting is a cancellation point: the mutex is held again when the cleanup handlers run. */
#include "tests/posix/posix.h"

enum how { WAIT, TIMEDWAIT, CLOCKWAIT };

struct waiter {
	pthread_mutex_t m;
	pthread_cond_t c;
	enum how how;
	int waiting, cleaned;
};

static int wait_by(enum how how, pthread_cond_t *c, pthread_mutex_t *m)
{
	struct timespec late = from_now(how == CLOCKWAIT ? CLOCK_MONOTONIC : CLOCK_REALTIME, LONG_WAIT);

	if (how == WAIT)
		return pthread_cond_wait(c, m);
	return how == TIMEDWAIT ? pthread_cond_timedwait(c, m, &late)
				: pthread_cond_clockwait(c, m, CLOCK_MONOTONIC, &late);
}

/* Runs with the mutex held: another thread finds it locked, and the unlock is not refused. */
static void clean(void *arg)
{
	struct waiter *w = arg;

	CHECK_IS(elsewhere(try_it, &w->m), EBUSY);
	tell(&w->cleaned, 1);
	ok(pthread_mutex_unlock(&w->m));
}

static void *wait_for_ever(void *arg)
{
	struct waiter *w = arg;

	ok(pthread_mutex_lock(&w->m));
	pthread_cleanup_push(clean, w);
	tell(&w->waiting, 1);
	for (;;)
		ok(wait_by(w->how, &w->c, &w->m));
	pthread_cleanup_pop(0);
	return NULL;
}

static void blocked(int kind, int robust, enum how how)
{
	struct waiter w = {.c = PTHREAD_COND_INITIALIZER, .how = how};
	pthread_mutexattr_t attr;
	pthread_t thread;

	ok(pthread_mutexattr_init(&attr));
	ok(pthread_mutexattr_settype(&attr, kind));
	ok(pthread_mutexattr_setrobust(&attr, robust));
	ok(pthread_mutex_init(&w.m, &attr));
	thread = check_thread(wait_for_ever, &w);
	await(&w.waiting, 1);
	ok(pthread_mutex_lock(&w.m)); /* so it waits */
	ok(pthread_cancel(thread));
	CHECK_IS(__atomic_load_n(&w.cleaned, __ATOMIC_ACQUIRE), 0); /* the mutex comes first */
	ok(pthread_mutex_unlock(&w.m));
	CHECK(check_join(thread) == PTHREAD_CANCELED);
	CHECK_IS(w.cleaned, 1);
	ok(pthread_mutex_lock(&w.m));
	ok(pthread_cond_signal(&w.c)); /* to nobody */
	ok(pthread_mutex_unlock(&w.m));
	ok(pthread_cond_destroy(&w.c));
	ok(pthread_mutex_destroy(&w.m));
}

/* A cancellation that is pending acts in the call, blocking or not. */
static void *cancelled_before(void *arg)
{
	struct waiter *w = arg;

	ok(pthread_mutex_lock(&w->m));
	pthread_cleanup_push(clean, w);
	ok(pthread_cancel(pthread_self()));
	wait_by(w->how, &w->c, &w->m);
	CHECK(!"returned");
	pthread_cleanup_pop(0);
	return NULL;
}

/* One that is disabled does not, and remains pending. */
static void *disabled(void *arg)
{
	struct waiter *w = arg;

	ok(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL));
	ok(pthread_mutex_lock(&w->m));
	tell(&w->waiting, 1);
	ok(wait_by(w->how, &w->c, &w->m));
	ok(pthread_mutex_unlock(&w->m));
	ok(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL));
	pthread_testcancel();
	CHECK(!"not pending");
	return NULL;
}

static void not_blocked(enum how how)
{
	struct waiter w = {.m = PTHREAD_MUTEX_INITIALIZER, .c = PTHREAD_COND_INITIALIZER, .how = how};
	pthread_t thread = check_thread(cancelled_before, &w);

	CHECK(check_join(thread) == PTHREAD_CANCELED);
	CHECK_IS(w.cleaned, 1);
	thread = check_thread(disabled, &w);
	await(&w.waiting, 1);
	ok(pthread_cancel(thread));
	ok(pthread_mutex_lock(&w.m));
	ok(pthread_cond_signal(&w.c));
	ok(pthread_mutex_unlock(&w.m));
	CHECK(check_join(thread) == PTHREAD_CANCELED);
}

int main(void)
{
	for (enum how how = WAIT; how <= CLOCKWAIT; how++) {
		blocked(PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED, how);
		blocked(PTHREAD_MUTEX_ADAPTIVE_NP, PTHREAD_MUTEX_STALLED, how);
		blocked(PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_STALLED, how);
		blocked(PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_STALLED, how);
		blocked(PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ROBUST, how);
		not_blocked(how);
	}
	return 0;
}
