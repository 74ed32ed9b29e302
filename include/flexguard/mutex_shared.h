/* SPDX-License-Identifier: MIT */
/* A mutual-exclusion lock for memory that processes share.
 *
 *   struct { struct fg_mutex_shared m; ... } *shared = mmap(..., MAP_SHARED, ...);
 *   fg_mutex_shared_lock(&shared->m);
 *   ...
 *   fg_mutex_shared_unlock(&shared->m);
 *
 * 8 bytes, 8-aligned. Zeroed memory is an unlocked mutex; no destructor is needed. The word has the handle of its owner
 * (flexguard/advice.h), so a waiter of any process of the same user learns whether the owner runs, and spins, yields or
 * sleeps accordingly. It is not recursive. Only the thread that has it may unlock it; the child of a fork has none of
 * the parent's. It is not fair: a thread that comes may take it before one that sleeps.
 *
 * A child that keeps its parent's handle (fg_thread_handle says which) must not use it: it could unlock what its parent
 * has, and when the parent has ended, others could recover what the child has.
 *
 * An owner that dies is not reported to those who wait: they sleep on, and look after 10 ms, 20 ms and so on, at last
 * every 1.3 s. A program that suspects it (its supervisor has seen the process end, or fg_mutex_shared_timedlock has
 * failed) asks fg_mutex_shared_recover.
 *
 * All calls are thread-safe; none allocates, prints, touches errno, ends the process or is a cancellation point. */
#ifndef FLEXGUARD_MUTEX_SHARED_H
#define FLEXGUARD_MUTEX_SHARED_H

#include <flexguard/annotations.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct timespec; /* strict C99 has none, and strict C no clockid_t in <time.h> */

#ifdef __cplusplus
extern "C" {
#endif

struct FG_CAPABILITY("mutex") fg_mutex_shared {
	uint64_t opaque;
};

#define FG_MUTEX_SHARED                                                                                                \
	{                                                                                                              \
		0                                                                                                      \
	}

/* Waits until the mutex is this thread's. Memory order: acquire. */
void fg_mutex_shared_lock(struct fg_mutex_shared *m) FG_ACQUIRE(*m);

/* Returns 0 with the mutex, EBUSY without; never waits. */
int fg_mutex_shared_trylock(struct fg_mutex_shared *m) FG_TRY_ACQUIRE(0, *m);

/* Waits until the absolute time `abs` of `clock` (CLOCK_REALTIME or CLOCK_MONOTONIC) at the latest. Returns 0 with the
 * mutex, ETIMEDOUT without, EINVAL for another clock or if abs->tv_nsec is not in [0, 1e9). A free mutex is taken even
 * if the time has passed. */
int fg_mutex_shared_timedlock(struct fg_mutex_shared *m, clockid_t clock, const struct timespec *abs)
	FG_TRY_ACQUIRE(0, *m);

/* Memory order: release. Wakes a sleeping waiter, if there may be one. Returns 0, or EPERM if this thread does not have
 * the mutex, which then is as it was. */
int fg_mutex_shared_unlock(struct fg_mutex_shared *m) FG_RELEASE(*m);

/* Takes the mutex from a thread that has ended with it. Returns 0 with the mutex: what it protects may be half done.
 * EBUSY: it is free, or a thread with the owner's tid is there (the owner, or one that has got its tid since; a process
 * that was killed is there until its parent has waited for it), or a sandbox forbids to ask. All that use the mutex
 * must be in one PID namespace if any of them calls this. Makes a system call. */
int fg_mutex_shared_recover(struct fg_mutex_shared *m) FG_TRY_ACQUIRE(0, *m);

#ifdef __cplusplus
}
#endif
#endif
