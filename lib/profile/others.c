/* SPDX-License-Identifier: MIT */
/* Read-write locks, semaphores and barriers, counted and passed on as mutexes are. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>

#include "profile/acquire.h"

static struct {
	int (*rdlock)(pthread_rwlock_t *);
	int (*wrlock)(pthread_rwlock_t *);
	int (*tryrdlock)(pthread_rwlock_t *);
	int (*trywrlock)(pthread_rwlock_t *);
	int (*timedrdlock)(pthread_rwlock_t *, const struct timespec *);
	int (*timedwrlock)(pthread_rwlock_t *, const struct timespec *);
	int (*clockrdlock)(pthread_rwlock_t *, clockid_t, const struct timespec *);
	int (*clockwrlock)(pthread_rwlock_t *, clockid_t, const struct timespec *);
	int (*unlock)(pthread_rwlock_t *);
	int (*barrier_wait)(pthread_barrier_t *);
	int (*sem_wait)(sem_t *);
	int (*sem_trywait)(sem_t *);
	int (*sem_timedwait)(sem_t *, const struct timespec *);
	int (*sem_clockwait)(sem_t *, clockid_t, const struct timespec *);
} next;
static int next_found;

/* Several threads may run it at once: all store the same values. */
static void find_next(void)
{
#define FIND(field, name) fg_store_relaxed(&next.field, (__typeof__(next.field))dlsym(RTLD_NEXT, name))
	FIND(rdlock, "pthread_rwlock_rdlock");
	FIND(wrlock, "pthread_rwlock_wrlock");
	FIND(tryrdlock, "pthread_rwlock_tryrdlock");
	FIND(trywrlock, "pthread_rwlock_trywrlock");
	FIND(timedrdlock, "pthread_rwlock_timedrdlock");
	FIND(timedwrlock, "pthread_rwlock_timedwrlock");
	FIND(clockrdlock, "pthread_rwlock_clockrdlock");
	FIND(clockwrlock, "pthread_rwlock_clockwrlock");
	FIND(unlock, "pthread_rwlock_unlock");
	FIND(barrier_wait, "pthread_barrier_wait");
	FIND(sem_wait, "sem_wait");
	FIND(sem_trywait, "sem_trywait");
	FIND(sem_timedwait, "sem_timedwait");
	FIND(sem_clockwait, "sem_clockwait");
	fg_store_release(&next_found, 1); /* pairs with need_next */
}

static inline void need_next(void)
{
	if (fg_unlikely(!fg_load_acquire(&next_found))) /* pairs with find_next */
		find_next();
}

static int try_read(void *lock)
{
	return next.tryrdlock(lock);
}

static int try_write(void *lock)
{
	return next.trywrlock(lock);
}

static int wait_to_read(void *lock, const struct fgp_call *call)
{
	switch (call->how) {
	case TIMEDLOCK:
		return next.timedrdlock(lock, call->until);
	case CLOCKLOCK:
		return next.clockrdlock(lock, call->clock, call->until);
	case TRYLOCK:
		return EBUSY;
	default:
		return next.rdlock(lock);
	}
}

static int wait_to_write(void *lock, const struct fgp_call *call)
{
	switch (call->how) {
	case TIMEDLOCK:
		return next.timedwrlock(lock, call->until);
	case CLOCKLOCK:
		return next.clockwrlock(lock, call->clock, call->until);
	case TRYLOCK:
		return EBUSY;
	default:
		return next.wrlock(lock);
	}
}

static int unlock_either(void *lock)
{
	return next.unlock(lock);
}

/* A thread may read several times; nobody else unlocks for it. */
static bool nests(const void *lock)
{
	(void)lock;
	return true;
}

static const struct fgp_kind readers = {FG_PROFILE_RWLOCK, try_read, wait_to_read, nests};
static const struct fgp_kind writers = {FG_PROFILE_RWLOCK, try_write, wait_to_write, nests};

static inline __attribute__((always_inline)) int acquire(pthread_rwlock_t *lock, const struct fgp_kind *of, int how,
							 clockid_t clock, const struct timespec *until,
							 const void *frame)
{
	need_next();
	return fgp_acquire(lock, &(struct fgp_call){of, how, clock, until, frame});
}

EXPORT int pthread_rwlock_rdlock(pthread_rwlock_t *lock)
{
	return acquire(lock, &readers, LOCK, 0, NULL, FRAME);
}

EXPORT int pthread_rwlock_wrlock(pthread_rwlock_t *lock)
{
	return acquire(lock, &writers, LOCK, 0, NULL, FRAME);
}

EXPORT int pthread_rwlock_tryrdlock(pthread_rwlock_t *lock)
{
	return acquire(lock, &readers, TRYLOCK, 0, NULL, FRAME);
}

EXPORT int pthread_rwlock_trywrlock(pthread_rwlock_t *lock)
{
	return acquire(lock, &writers, TRYLOCK, 0, NULL, FRAME);
}

EXPORT int pthread_rwlock_timedrdlock(pthread_rwlock_t *restrict lock, const struct timespec *restrict until)
{
	return acquire(lock, &readers, TIMEDLOCK, 0, until, FRAME);
}

EXPORT int pthread_rwlock_timedwrlock(pthread_rwlock_t *restrict lock, const struct timespec *restrict until)
{
	return acquire(lock, &writers, TIMEDLOCK, 0, until, FRAME);
}

EXPORT int pthread_rwlock_clockrdlock(pthread_rwlock_t *restrict lock, clockid_t clock,
				      const struct timespec *restrict until)
{
	return acquire(lock, &readers, CLOCKLOCK, clock, until, FRAME);
}

EXPORT int pthread_rwlock_clockwrlock(pthread_rwlock_t *restrict lock, clockid_t clock,
				      const struct timespec *restrict until)
{
	return acquire(lock, &writers, CLOCKLOCK, clock, until, FRAME);
}

EXPORT int pthread_rwlock_unlock(pthread_rwlock_t *lock)
{
	need_next();
	if (fg_unlikely(fgp_thread.timed))
		return fgp_unlock_timed(lock, unlock_either);
	return next.unlock(lock);
}

EXPORT int pthread_barrier_wait(pthread_barrier_t *barrier)
{
	struct fg_profile_counts *counts;
	struct fgp_timed timed;
	int result;

	need_next();
	counts = fgp_wait_begins(barrier, FG_PROFILE_BARRIER, FRAME, &timed);
	result = next.barrier_wait(barrier);
	fgp_wait_ends(counts, &timed);
	return result;
}

/* Whether a semaphore could be taken without a wait. */
static bool is_taken(sem_t *sem)
{
	struct fg_profile_counts *counts;
	int error = errno;

	if (next.sem_trywait(sem) != 0) {
		errno = error;
		return false;
	}
	counts = fgp_counts_of(sem, FG_PROFILE_SEMAPHORE);
	if (counts)
		counts->acquisitions++;
	else
		fgp_count_shared((uintptr_t)sem, FG_PROFILE_SEMAPHORE, (struct fgp_event){.acquired = true});
	return true;
}

/* sem_wait and its kin are points of cancellation also where they do not wait. */
static int wait_for(sem_t *sem, const struct fgp_call *call)
{
	struct fg_profile_counts *counts;
	struct fgp_timed timed;
	int result;

	need_next();
	pthread_testcancel();
	if (is_taken(sem))
		return 0;
	counts = fgp_wait_begins(sem, FG_PROFILE_SEMAPHORE, call->frame, &timed);
	if (call->how == TIMEDLOCK)
		result = next.sem_timedwait(sem, call->until);
	else if (call->how == CLOCKLOCK)
		result = next.sem_clockwait(sem, call->clock, call->until);
	else
		result = next.sem_wait(sem);
	if (result == 0)
		fgp_wait_ends(counts, &timed);
	else if (counts)
		counts->failed++;
	return result;
}

EXPORT int sem_wait(sem_t *sem)
{
	return wait_for(sem, &(struct fgp_call){.how = LOCK, .frame = FRAME});
}

EXPORT int sem_timedwait(sem_t *restrict sem, const struct timespec *restrict until)
{
	return wait_for(sem, &(struct fgp_call){.how = TIMEDLOCK, .until = until, .frame = FRAME});
}

EXPORT int sem_clockwait(sem_t *restrict sem, clockid_t clock, const struct timespec *restrict until)
{
	return wait_for(sem, &(struct fgp_call){.how = CLOCKLOCK, .clock = clock, .until = until, .frame = FRAME});
}

__attribute__((constructor)) static void start(void)
{
	need_next();
}
