/* SPDX-License-Identifier: MIT */
/* A read-write lock that spins while critical sections run and blocks while one of them is preempted.
 *
 *   static struct fg_rwlock l = FG_RWLOCK_INIT;
 *   fg_rwlock_rdlock(&l);   or   fg_rwlock_wrlock(&l);
 *   ...
 *   fg_rwlock_unlock(&l);
 *
 * Zero-initialised memory is a free lock. 16 bytes, 8-aligned; no destructor needed. Neither readers nor writers
 * starve. A thread may take several read locks, also while a writer waits. Private to a process; any thread may
 * unlock. After fork the child holds what the forking thread held.
 *
 * All calls are thread-safe; none allocates, prints, touches errno, or ends the process, and none is a cancellation
 * point. Memory order: acquire and release. */
#ifndef FLEXGUARD_RWLOCK_H
#define FLEXGUARD_RWLOCK_H

#include <flexguard/annotations.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct timespec; /* strict C99 has none, and strict C no clockid_t in <time.h> */

#ifdef __cplusplus
extern "C" {
#endif

struct FG_CAPABILITY("read-write lock") fg_rwlock {
	uint64_t opaque[2];
};

#define FG_RWLOCK_INIT                                                                                                 \
	{                                                                                                              \
		{                                                                                                      \
			0, 0                                                                                           \
		}                                                                                                      \
	}

/* Return 0 with the lock; EDEADLK if this thread holds it for writing; a read lock also EAGAIN if there are 2^30. */
int fg_rwlock_rdlock(struct fg_rwlock *l) FG_ACQUIRE_SHARED(*l);
int fg_rwlock_wrlock(struct fg_rwlock *l) FG_ACQUIRE(*l);

/* Return 0 with the lock, EBUSY without; never wait. */
int fg_rwlock_tryrdlock(struct fg_rwlock *l) FG_TRY_ACQUIRE_SHARED(0, *l);
int fg_rwlock_trywrlock(struct fg_rwlock *l) FG_TRY_ACQUIRE(0, *l);

/* As fg_rwlock_rdlock and _wrlock; ETIMEDOUT when the absolute time `abs` of `clock` (CLOCK_REALTIME or
 * CLOCK_MONOTONIC) is reached, EINVAL for another clock or if abs->tv_nsec is not in [0, 1e9). A free lock is taken
 * even if the time has passed. */
int fg_rwlock_timedrdlock(struct fg_rwlock *l, clockid_t clock, const struct timespec *abs)
	FG_TRY_ACQUIRE_SHARED(0, *l);
int fg_rwlock_timedwrlock(struct fg_rwlock *l, clockid_t clock, const struct timespec *abs) FG_TRY_ACQUIRE(0, *l);

/* Gives back a read lock or the write lock of this or another thread. Memory order: release. */
void fg_rwlock_unlock(struct fg_rwlock *l) FG_RELEASE_ANY(*l);

#ifdef __cplusplus
}
#endif
#endif
