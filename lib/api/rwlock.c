/* SPDX-License-Identifier: MIT */
#include "flexguard/rwlock.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#include "sync/parked.h"
#include "sync/rwlock.h"

_Static_assert(sizeof(struct fgi_rwlock) == sizeof(struct fg_rwlock), "fg_rwlock is the lock");
_Static_assert(_Alignof(struct fgi_rwlock) <= _Alignof(struct fg_rwlock), "fg_rwlock is the lock");

static inline struct fgi_rwlock *lock_of(struct fg_rwlock *l)
{
	return (struct fgi_rwlock *)(void *)l->opaque;
}

int fg_rwlock_rdlock(struct fg_rwlock *l)
{
	return fgi_rwlock_read(lock_of(l), FGI_NEVER);
}

int fg_rwlock_wrlock(struct fg_rwlock *l)
{
	return fgi_rwlock_write(lock_of(l), FGI_NEVER);
}

int fg_rwlock_tryrdlock(struct fg_rwlock *l)
{
	return fgi_rwlock_try_read(lock_of(l));
}

int fg_rwlock_trywrlock(struct fg_rwlock *l)
{
	return fgi_rwlock_try_write(lock_of(l));
}

int fg_rwlock_timedrdlock(struct fg_rwlock *l, clockid_t clock, const struct timespec *abs)
{
	struct fgi_deadline until = FGI_DEADLINE(clock, abs);

	return fgi_is_deadline(until) ? fgi_rwlock_read(lock_of(l), until) : EINVAL;
}

int fg_rwlock_timedwrlock(struct fg_rwlock *l, clockid_t clock, const struct timespec *abs)
{
	struct fgi_deadline until = FGI_DEADLINE(clock, abs);

	return fgi_is_deadline(until) ? fgi_rwlock_write(lock_of(l), until) : EINVAL;
}

void fg_rwlock_unlock(struct fg_rwlock *l)
{
	fgi_rwlock_unlock(lock_of(l));
}

static void after_fork(void)
{
	fgi_parked_after_fork();
	fgi_readers_after_fork();
}

__attribute__((constructor)) static void rwlock_start(void)
{
	(void)pthread_atfork(fgi_readers_before_fork, NULL, after_fork);
}
