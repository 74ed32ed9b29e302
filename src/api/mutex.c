/* SPDX-License-Identifier: MIT */
#include "flexguard/mutex.h"

#include <errno.h>

#include FGI_LOCK_FILE /* the default lock, by locks/LOCKS */

_Static_assert(sizeof(struct fg_lock) == sizeof(struct fg_mutex), "fg_mutex is the lock");
_Static_assert(_Alignof(struct fg_lock) <= _Alignof(struct fg_mutex), "fg_mutex is the lock");

static inline struct fg_lock *lock_of(struct fg_mutex *m)
{
	return (struct fg_lock *)(void *)m->opaque;
}

void fg_mutex_lock(struct fg_mutex *m)
{
	fgi_lock(lock_of(m));
}

int fg_mutex_trylock(struct fg_mutex *m)
{
	return fgi_trylock(lock_of(m)) ? 0 : EBUSY;
}

int fg_mutex_timedlock(struct fg_mutex *m, clockid_t clock, const struct timespec *abs)
{
	if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC)
		return EINVAL;
	if (abs->tv_nsec < 0 || abs->tv_nsec >= 1000000000)
		return EINVAL;
	return fgi_timedlock(lock_of(m), clock, abs);
}

void fg_mutex_unlock(struct fg_mutex *m)
{
	fgi_unlock(lock_of(m));
}
