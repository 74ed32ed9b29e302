/* SPDX-License-Identifier: MIT */
/* A condition variable whose waiters stay awake while that is cheaper than sleeping, and park otherwise.
 *
 *   static struct fg_cond changed = FG_COND_INIT;
 *   fg_mutex_lock(&m);
 *   while (!ready)
 *           fg_cond_wait(&changed, &m);
 *   fg_mutex_unlock(&m);
 *
 * Zero-initialised memory is a condition variable without waiters. 8 bytes; no destructor needed, and its memory may go
 * as soon as a broadcast has returned after which no thread waits. All that wait at one time use the same mutex, which
 * they hold. A signal releases the thread that has waited longest; one without waiters is not kept. No wait ends but by
 * a signal, a broadcast, its deadline, or, in a process that a signal handler has forked there, at once. Private to a
 * process; in the child of a fork nobody waits.
 *
 * All calls are thread-safe; none allocates, prints, touches errno, or ends the process, and none is a cancellation
 * point. */
#ifndef FLEXGUARD_COND_H
#define FLEXGUARD_COND_H

#include <flexguard/mutex.h>
#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fg_cond {
	uint32_t opaque[2];
};

#define FG_COND_INIT                                                                                                   \
	{                                                                                                              \
		{                                                                                                      \
			0, 0                                                                                           \
		}                                                                                                      \
	}

/* Unlocks the mutex, waits, and locks it again. Its thread counts as waiting before the mutex is free. */
void fg_cond_wait(struct fg_cond *c, struct fg_mutex *m) FG_REQUIRES(*m);

/* The same until the absolute time `abs` of `clock` (CLOCK_REALTIME or CLOCK_MONOTONIC) at the latest. Returns 0 if a
 * signal or broadcast released the thread, ETIMEDOUT if the time has come, both with the mutex locked again; EINVAL, at
 * once, for another clock or if abs->tv_nsec is not in [0, 1e9). */
int fg_cond_timedwait(struct fg_cond *c, struct fg_mutex *m, clockid_t clock, const struct timespec *abs)
	FG_REQUIRES(*m);

/* Release one waiter, or all. Whether the caller holds the mutex does not matter. The threads that a broadcast finds
 * asleep are woken one after the other, each when the one before has the mutex. */
void fg_cond_signal(struct fg_cond *c);
void fg_cond_broadcast(struct fg_cond *c);

#ifdef __cplusplus
}
#endif
#endif
