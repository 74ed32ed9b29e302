/* SPDX-License-Identifier: MIT */
/* The profiler of `flexguard profile`: pthread_mutex_*, and the waits on condition variables. It is preloaded before
 * the definitions that it passes the calls on to. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "profile/acquire.h"

#define KINDS 3 /* the bits of glibc's kind that say what a lock by its holder does */

static struct {
	int (*lock)(pthread_mutex_t *);
	int (*trylock)(pthread_mutex_t *);
	int (*timedlock)(pthread_mutex_t *, const struct timespec *);
	int (*clocklock)(pthread_mutex_t *, clockid_t, const struct timespec *);
	int (*unlock)(pthread_mutex_t *);
	int (*wait)(pthread_cond_t *, pthread_mutex_t *);
	int (*timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
	int (*clockwait)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
} next;
static int next_found;

/* Several threads may run it at once: all store the same values. glibc has two functions of some names; an interposer
 * defines the newer one of condition variables under its version. */
static void find_next(void)
{
#define FIND(field, name) fg_store_relaxed(&next.field, (__typeof__(next.field))dlsym(RTLD_NEXT, name))
#define FIND_COND(field, name)                                                                                         \
	fg_store_relaxed(&next.field, (__typeof__(next.field))dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2"))
	FIND(lock, "pthread_mutex_lock");
	FIND(trylock, "pthread_mutex_trylock");
	FIND(timedlock, "pthread_mutex_timedlock");
	FIND(clocklock, "pthread_mutex_clocklock");
	FIND(unlock, "pthread_mutex_unlock");
	FIND_COND(wait, "pthread_cond_wait");
	FIND_COND(timedwait, "pthread_cond_timedwait");
	FIND(clockwait, "pthread_cond_clockwait");
	fg_store_release(&next_found, 1); /* pairs with need_next */
}

/* Other objects may lock before our constructor has run. */
static inline void need_next(void)
{
	if (fg_unlikely(!fg_load_acquire(&next_found))) /* pairs with find_next */
		find_next();
}

static int try_mutex(void *mutex)
{
	return next.trylock(mutex);
}

static int wait_for_mutex(void *mutex, const struct fgp_call *call)
{
	switch (call->how) {
	case TIMEDLOCK:
		return next.timedlock(mutex, call->until);
	case CLOCKLOCK:
		return next.clocklock(mutex, call->clock, call->until);
	case TRYLOCK:
		return EBUSY;
	default:
		return next.lock(mutex);
	}
}

static int unlock_mutex(void *mutex)
{
	return next.unlock(mutex);
}

static bool is_recursive(const void *mutex)
{
	const pthread_mutex_t *m = mutex;

	return (m->__data.__kind & KINDS) == PTHREAD_MUTEX_RECURSIVE_NP;
}

static const struct fgp_kind of_mutexes = {FG_PROFILE_MUTEX, try_mutex, wait_for_mutex, is_recursive};

static inline __attribute__((always_inline)) int acquire(pthread_mutex_t *mutex, int how, clockid_t clock,
							 const struct timespec *until, const void *frame)
{
	need_next();
	return fgp_acquire(mutex, &(struct fgp_call){&of_mutexes, how, clock, until, frame});
}

EXPORT int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	return acquire(mutex, LOCK, 0, NULL, FRAME);
}

EXPORT int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
	return acquire(mutex, TRYLOCK, 0, NULL, FRAME);
}

EXPORT int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict until)
{
	return acquire(mutex, TIMEDLOCK, 0, until, FRAME);
}

EXPORT int pthread_mutex_clocklock(pthread_mutex_t *restrict mutex, clockid_t clock,
				   const struct timespec *restrict until)
{
	return acquire(mutex, CLOCKLOCK, clock, until, FRAME);
}

EXPORT int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	need_next();
	if (fg_unlikely(fgp_thread.timed))
		return fgp_unlock_timed(mutex, unlock_mutex);
	return next.unlock(mutex);
}

/* A wait on a condition variable. */
struct cond_wait {
	struct fg_profile_counts *counts; /* of the condition variable */
	struct fgp_timed timed;
};

/* It ends the hold of the mutex. */
static struct cond_wait wait_begins(const pthread_cond_t *cond, const pthread_mutex_t *mutex, const void *frame)
{
	struct cond_wait wait;

	need_next();
	fgp_hold_ends(mutex);
	wait.counts = fgp_wait_begins(cond, FG_PROFILE_COND, frame, &wait.timed);
	return wait;
}

/* The mutex is held again. Whether the thread waited for it, or for the signal only, is not known. */
static int wait_ends(struct cond_wait *wait, const pthread_mutex_t *mutex, int result, const void *frame)
{
	struct fg_profile_counts *counts;
	struct fgp_timed timed = {.mutex = (uintptr_t)mutex};

	if (!fgp_is_acquired(result) && result != ETIMEDOUT)
		return result;
	fgp_wait_ends(wait->counts, &wait->timed);
	counts = fgp_counts_of(mutex, FG_PROFILE_MUTEX);
	if (!counts) {
		fgp_count_shared((uintptr_t)mutex, FG_PROFILE_MUTEX, (struct fgp_event){.cond_wait = true});
		return result;
	}
	timed.hold_weight = fgp_hold_weight(counts);
	counts->cond_waits++;
	fgp_hold_passed(counts);
	if (timed.hold_weight) {
		timed.lock = counts->lock;
		timed.site = fgp_site(counts->lock, frame);
		timed.since_ns = fgp_now();
		fgp_remember(&timed);
	}
	return result;
}

EXPORT int pthread_cond_wait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex)
{
	struct cond_wait wait = wait_begins(cond, mutex, FRAME);

	return wait_ends(&wait, mutex, next.wait(cond, mutex), FRAME);
}

EXPORT int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
				  const struct timespec *restrict until)
{
	struct cond_wait wait = wait_begins(cond, mutex, FRAME);

	return wait_ends(&wait, mutex, next.timedwait(cond, mutex, until), FRAME);
}

EXPORT int pthread_cond_clockwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex, clockid_t clock,
				  const struct timespec *restrict until)
{
	struct cond_wait wait = wait_begins(cond, mutex, FRAME);

	return wait_ends(&wait, mutex, next.clockwait(cond, mutex, clock, until), FRAME);
}

__attribute__((constructor)) static void start(void)
{
	need_next();
}

/* glibc's second names, which programs may have been linked to. */
#define ALIAS(name, of) extern __typeof__(of) name __attribute__((alias(#of), visibility("default"), nothrow, leaf))
ALIAS(__pthread_mutex_lock, pthread_mutex_lock);
ALIAS(__pthread_mutex_trylock, pthread_mutex_trylock);
ALIAS(__pthread_mutex_unlock, pthread_mutex_unlock);
