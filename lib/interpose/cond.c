/* SPDX-License-Identifier: MIT */
/* pthread_cond_*. docs/design/interposer.md has the state tables and the rules C1 to C5; the list of waiters is in
 * interpose/waitq.c, here are time, cancellation and the mutex. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "interpose/bridge.h"
#include "interpose/cond.h"
#include "interpose/glibc_layout.h"
#include "interpose/mutex.h"
#include "interpose/real.h"
#include "runtime/cancel.h"
#include "runtime/cleanup.h"
#include "sync/awake.h"

_Static_assert(sizeof(struct fgi_waitq) == sizeof(uint32_t), "at 0, where no glibc has its flags");
_Static_assert(_Alignof(struct fgi_waitq) <= _Alignof(pthread_cond_t), "a queue must fit");

#define EXPORT __attribute__((visibility("default")))

struct wait {
	struct fgi_waiter node;
	struct fgi_awake awake;
	clockid_t clock;
	const struct timespec *abs;
	bool slept;
	int cancel_type; /* deferred, unless glibc alone was told another */
	bool suspended;  /* the caller's asynchronous cancellation */
};

/* An object that is not understood passes through, as one that is shared. */
static uint32_t flags_of(const pthread_cond_t *cond)
{
	uint32_t at = fgi_real()->cond_flags_at;

	return fg_likely(at) ? *(const uint32_t *)(const void *)((const char *)cond + at) : FGI_GLIBC_COND_SHARED;
}

static bool shared(const pthread_cond_t *cond)
{
	return fg_unlikely(flags_of(cond) & FGI_GLIBC_COND_SHARED);
}

static clockid_t clock_of(const pthread_cond_t *cond)
{
	return flags_of(cond) & FGI_GLIBC_COND_MONOTONIC ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

static bool granted(const void *waiter)
{
	return fgi_waiter_granted(waiter);
}

/* Until granted or until the deadline. A cancellation may end it at any instruction, awake or asleep, the first one
 * included if it was pending: nothing is held here. */
static void wait_cancellable(struct wait *w)
{
	bool in_time = true;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &w->cancel_type);
	if (!fgi_awake_stay(&w->awake, granted, &w->node, w->clock, w->abs)) {
		w->slept = true;
		while (in_time && !fgi_waiter_granted(&w->node))
			in_time = fgi_waiter_sleep(&w->node, w->clock, w->abs);
	}
	pthread_setcanceltype(w->cancel_type, NULL);
}

static int take_mutex(struct wait *w)
{
	int error = fgi_mutex_lock(w->node.mutex);

	if (w->node.late || w->node.in_flight)
		fgi_mutex_arrived(&w->node);
	return error;
}

/* The wait ends by cancellation, before the cleanup handlers of the program, which expect to hold the mutex; or a
 * signal handler jumps out of it: glibc's own wait then ends with the mutex held, too. */
static void cancelled(void *arg)
{
	struct wait *w = arg;

	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
	if (fgi_waitq_leave(&w->node) != FGI_LEFT && w->node.grant == FGI_SIGNALLED)
		fgi_waitq_pass(w->node.cond); /* C4 */
	take_mutex(w);
	pthread_setcanceltype(w->suspended ? PTHREAD_CANCEL_ASYNCHRONOUS : w->cancel_type, NULL);
}

static void wait_or_die(struct wait *w)
{
	struct _pthread_cleanup_buffer buffer;

	_pthread_cleanup_push(&buffer, cancelled, w);
	wait_cancellable(w);
	_pthread_cleanup_pop(&buffer, 0);
}

int fgi_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *abs)
{
	struct wait w;
	int error, result = 0;

	w.node.mutex = mutex;
	w.clock = clock;
	w.abs = abs;
	w.slept = false;
	w.cancel_type = PTHREAD_CANCEL_DEFERRED;
	w.suspended = fgi_async_suspend();
	fgi_awake_begin(&w.awake, cond);
	fgi_waitq_join(fgi_waitq_of(cond), &w.node); /* C2 */
	error = fgi_mutex_unlock(mutex);
	if (error) {
		if (fgi_waitq_leave(&w.node) == FGI_SIGNALLED)
			fgi_waitq_pass(cond);
		fgi_async_resume(w.suspended);
		return error;
	}
	wait_or_die(&w);
	if (!fgi_waiter_granted(&w.node) && fgi_waitq_leave(&w.node) == FGI_LEFT)
		result = abs ? ETIMEDOUT : 0; /* without a deadline: in the child of a fork */
	fgi_awake_end(&w.awake, w.slept, fgi_waiter_granted(&w.node) ? w.node.granted_ns : 0);
	error = take_mutex(&w);
	fgi_async_resume(w.suspended);
	return error ? error : result;
}

EXPORT int pthread_cond_wait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex)
{
	if (!shared(cond))
		return fgi_cond_wait(cond, mutex, CLOCK_MONOTONIC, NULL);
	if (fgi_mutex_native(mutex))
		return fgi_bridge_wait(cond, mutex, FGI_OWN_CLOCK, NULL);
	return fgi_real()->cond_wait(cond, mutex);
}

EXPORT int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
				  const struct timespec *restrict abs)
{
	if (!fgi_is_time(abs))
		return EINVAL;
	if (!shared(cond))
		return fgi_cond_wait(cond, mutex, clock_of(cond), abs);
	if (fgi_mutex_native(mutex))
		return fgi_bridge_wait(cond, mutex, FGI_OWN_CLOCK, abs);
	return fgi_real()->cond_timedwait(cond, mutex, abs);
}

EXPORT int pthread_cond_clockwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex, clockid_t clock,
				  const struct timespec *restrict abs)
{
	if (!fgi_is_time(abs) || !fgi_is_clock(clock))
		return EINVAL;
	if (!shared(cond))
		return fgi_cond_wait(cond, mutex, clock, abs);
	if (fgi_mutex_native(mutex))
		return fgi_bridge_wait(cond, mutex, clock, abs);
	return fgi_real()->cond_clockwait(cond, mutex, clock, abs);
}

__attribute__((noinline)) static int signal_shared(pthread_cond_t *cond)
{
	fgi_bridge_pass();
	return fgi_real()->cond_signal(cond);
}

/* The waiters of a condition variable wait with one mutex: POSIX leaves it undefined that they use several. With
 * several each is still granted, though perhaps later than it could be. */
static void release(struct fgi_waiter *first)
{
	if (first && !fgi_mutex_grants(first))
		fgi_waiters_grant(first);
}

static inline void take_and_release(pthread_cond_t *cond, struct fgi_waiter *(*take)(struct fgi_waitq *))
{
	struct fgi_waitq *q = fgi_waitq_of(cond);
	bool suspended;

	if (fgi_waitq_idle(q))
		return;
	suspended = fgi_async_suspend();
	release(take(q));
	fgi_async_resume(suspended);
}

void fgi_cond_signal(pthread_cond_t *cond)
{
	take_and_release(cond, fgi_waitq_take_first);
}

void fgi_cond_broadcast(pthread_cond_t *cond)
{
	take_and_release(cond, fgi_waitq_take_all);
}

EXPORT int pthread_cond_signal(pthread_cond_t *cond)
{
	if (shared(cond))
		return signal_shared(cond);
	fgi_cond_signal(cond);
	return 0;
}

__attribute__((noinline)) static int broadcast_shared(pthread_cond_t *cond)
{
	fgi_bridge_pass();
	return fgi_real()->cond_broadcast(cond);
}

EXPORT int pthread_cond_broadcast(pthread_cond_t *cond)
{
	if (shared(cond))
		return broadcast_shared(cond);
	fgi_cond_broadcast(cond);
	return 0;
}

EXPORT int pthread_cond_init(pthread_cond_t *restrict cond, const pthread_condattr_t *restrict attr)
{
	if (attr)
		return fgi_real()->cond_init(cond, attr);
	memset(cond, 0, sizeof(*cond));
	return 0;
}

EXPORT int pthread_cond_destroy(pthread_cond_t *cond)
{
	if (shared(cond))
		return fgi_real()->cond_destroy(cond);
	return fgi_waitq_busy(fgi_waitq_of(cond)) ? EBUSY : 0;
}
