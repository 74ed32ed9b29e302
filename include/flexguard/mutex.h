/* SPDX-License-Identifier: MIT */
/* A mutual-exclusion lock that spins while critical sections run and blocks while one of them is preempted.
 *
 *   static struct fg_mutex m = FG_MUTEX_INIT;
 *   fg_mutex_lock(&m);
 *   ...
 *   fg_mutex_unlock(&m);
 *
 * Zero-initialised memory is an unlocked mutex. 16 bytes, 8-aligned; no destructor needed, but no thread may be in a
 * call on it when its memory goes. Not recursive: a thread that locks a mutex it holds waits for ever
 * (fg_mutex_timedlock: until the deadline). Private to a process. Any thread may unlock. After fork the child holds
 * what the forking thread held.
 *
 * All calls are thread-safe; none allocates, prints, touches errno, or ends the process. None is a cancellation point.
 * fg_mutex_trylock and fg_mutex_unlock are async-signal-safe; fg_mutex_lock is as far as any lock can be: a handler
 * that locks what its thread holds waits for ever.
 *
 * The algorithm is the default lock's (`flexguard` in `flexguard list`), after FlexGuard, SOSP'25, section 3. */
#ifndef FLEXGUARD_MUTEX_H
#define FLEXGUARD_MUTEX_H

#include <flexguard/annotations.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct timespec; /* strict C99 has none, and strict C no clockid_t in <time.h> */

#ifdef __cplusplus
extern "C" {
#endif

struct FG_CAPABILITY("mutex") fg_mutex {
	uint64_t opaque[2];
};

#define FG_MUTEX_INIT                                                                                                  \
	{                                                                                                              \
		{                                                                                                      \
			0, 0                                                                                           \
		}                                                                                                      \
	}

/* Waits until the mutex is this thread's. Memory order: acquire. */
void fg_mutex_lock(struct fg_mutex *m) FG_ACQUIRE(*m);

/* Returns 0 with the mutex, EBUSY without; never waits. */
int fg_mutex_trylock(struct fg_mutex *m) FG_TRY_ACQUIRE(0, *m);

/* Waits until the absolute time `abs` of `clock` (CLOCK_REALTIME or CLOCK_MONOTONIC) at the latest. Returns 0 with the
 * mutex, ETIMEDOUT without, EINVAL for another clock or if abs->tv_nsec is not in [0, 1e9). A free mutex is taken even
 * if the time has passed. */
int fg_mutex_timedlock(struct fg_mutex *m, clockid_t clock, const struct timespec *abs) FG_TRY_ACQUIRE(0, *m);

/* Memory order: release. Wakes a parked waiter, if there is one. Streaming (non-temporal) stores need an sfence before
 * it, as before any release of C11: it is no locked instruction on x86-64. */
void fg_mutex_unlock(struct fg_mutex *m) FG_RELEASE(*m);

#ifdef __cplusplus
}
#endif
#endif
