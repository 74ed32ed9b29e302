/* SPDX-License-Identifier: MIT */
/* pthread_rwlock_*: glibc's kinds around sync/rwlock.h, which says how they differ. A process-shared lock, and any lock
 * of a glibc whose layout is not understood, is glibc's. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "interpose/atfork.h"
#include "interpose/glibc_layout.h"
#include "interpose/real.h"
#include "runtime/deadline.h"
#include "sync/rwlock.h"

/* What a lock of ours holds in glibc's 56 bytes. */
struct rwlock {
	struct fgi_rwlock lock;
	uint32_t unused[3];
	int32_t shared; /* glibc's; constant from init on */
	uint64_t unused_too[2];
	uint32_t kind; /* glibc's; constant from init on */
};
_Static_assert(offsetof(struct rwlock, lock) == 0, "where the flags of our own kind go");
_Static_assert(offsetof(struct rwlock, shared) == FGI_GLIBC_RWLOCK_SHARED_AT, "this word stays glibc's");
_Static_assert(offsetof(struct rwlock, kind) == FGI_GLIBC_RWLOCK_KIND_AT, "this word stays glibc's");
_Static_assert(sizeof(struct rwlock) <= sizeof(pthread_rwlock_t), "a lock must fit");
_Static_assert(_Alignof(struct rwlock) <= _Alignof(pthread_rwlock_t), "a lock must fit");

#define EXPORT __attribute__((visibility("default")))

static inline struct rwlock *of(pthread_rwlock_t *rwlock)
{
	return (struct rwlock *)rwlock;
}

__attribute__((noinline, cold)) static bool native_once_known(const pthread_rwlock_t *rwlock)
{
	return !((const struct rwlock *)rwlock)->shared && fgi_real()->rwlock_understood;
}

/* Before the table of glibc's functions is filled, nothing is understood. */
static inline bool native(const pthread_rwlock_t *rwlock)
{
	return fg_likely(!((const struct rwlock *)rwlock)->shared &&
			 fg_load_relaxed(&fgi_real_table.rwlock_understood)) ||
	       native_once_known(rwlock);
}

/* A static initializer may have set the kind, so it is not copied before the first use. */
static inline struct fgi_rwlock *lock_of(pthread_rwlock_t *rwlock)
{
	struct rwlock *r = of(rwlock);

	if (fg_unlikely(r->kind == FGI_GLIBC_RWLOCK_WRITERS && !fgi_rw_writers_first(&r->lock)))
		fg_store_relaxed(&r->lock.unbiased_until, FGI_RW_WRITERS_FIRST);
	return &r->lock;
}

EXPORT int pthread_rwlock_rdlock(pthread_rwlock_t *rwlock)
{
	if (!native(rwlock))
		return fgi_real()->rwlock_rdlock(rwlock);
	return fgi_rwlock_read(lock_of(rwlock), FGI_NEVER);
}

EXPORT int pthread_rwlock_wrlock(pthread_rwlock_t *rwlock)
{
	if (!native(rwlock))
		return fgi_real()->rwlock_wrlock(rwlock);
	return fgi_rwlock_write(lock_of(rwlock), FGI_NEVER);
}

EXPORT int pthread_rwlock_unlock(pthread_rwlock_t *rwlock)
{
	if (!native(rwlock))
		return fgi_real()->rwlock_unlock(rwlock);
	fgi_rwlock_unlock(&of(rwlock)->lock);
	return 0;
}

EXPORT int pthread_rwlock_tryrdlock(pthread_rwlock_t *rwlock)
{
	return native(rwlock) ? fgi_rwlock_try_read(lock_of(rwlock)) : fgi_real()->rwlock_tryrdlock(rwlock);
}

EXPORT int pthread_rwlock_trywrlock(pthread_rwlock_t *rwlock)
{
	return native(rwlock) ? fgi_rwlock_try_write(&of(rwlock)->lock) : fgi_real()->rwlock_trywrlock(rwlock);
}

/* An invalid time is EINVAL even where the lock is free, as in glibc. */
static int read_until(pthread_rwlock_t *rwlock, struct fgi_deadline until)
{
	return fgi_is_deadline(until) ? fgi_rwlock_read(lock_of(rwlock), until) : EINVAL;
}

static int write_until(pthread_rwlock_t *rwlock, struct fgi_deadline until)
{
	return fgi_is_deadline(until) ? fgi_rwlock_write(lock_of(rwlock), until) : EINVAL;
}

EXPORT int pthread_rwlock_timedrdlock(pthread_rwlock_t *restrict rwlock, const struct timespec *restrict abs)
{
	if (!native(rwlock))
		return fgi_real()->rwlock_timedrdlock(rwlock, abs);
	return read_until(rwlock, FGI_DEADLINE(CLOCK_REALTIME, abs));
}

EXPORT int pthread_rwlock_timedwrlock(pthread_rwlock_t *restrict rwlock, const struct timespec *restrict abs)
{
	if (!native(rwlock))
		return fgi_real()->rwlock_timedwrlock(rwlock, abs);
	return write_until(rwlock, FGI_DEADLINE(CLOCK_REALTIME, abs));
}

EXPORT int pthread_rwlock_clockrdlock(pthread_rwlock_t *restrict rwlock, clockid_t clock,
				      const struct timespec *restrict abs)
{
	if (!native(rwlock))
		return fgi_real()->rwlock_clockrdlock(rwlock, clock, abs);
	return read_until(rwlock, FGI_DEADLINE(clock, abs));
}

EXPORT int pthread_rwlock_clockwrlock(pthread_rwlock_t *restrict rwlock, clockid_t clock,
				      const struct timespec *restrict abs)
{
	if (!native(rwlock))
		return fgi_real()->rwlock_clockwrlock(rwlock, clock, abs);
	return write_until(rwlock, FGI_DEADLINE(clock, abs));
}

/* In the child of a fork: a lock that its thread has held since before is initialised again. Then it is no longer held.
 * The reads of threads that stayed in the parent are taken for its own: that makes `held` and fgi_reading too small by
 * at most the reads that were carried, until those are unlocked, and costs speed only. */
__attribute__((noinline, cold)) static void forget_carried(const struct fgi_rwlock *l, uint32_t entries)
{
	uint64_t word = fg_load_relaxed(&l->word), reads = entries + (word & FGI_RW_READERS) / FGI_RW_READER;

	if ((word & FG_OWNER_MASK) == fgi_carried.forker && fg_thread.held > 0) {
		fgi_carried.locks--;
		fgi_held_lower();
	}
	for (; reads && fgi_carried.reads > 0 && fgi_reading > 0; reads--) {
		fgi_carried.reads--;
		fgi_carried.locks--;
		fgi_reading--;
		fgi_held_lower();
	}
}

EXPORT int pthread_rwlock_init(pthread_rwlock_t *restrict rwlock, const pthread_rwlockattr_t *restrict attr)
{
	uint32_t entries = fgi_readers_forget(&of(rwlock)->lock);

	if (fg_unlikely(fgi_carried.locks > 0))
		forget_carried(&of(rwlock)->lock, entries);
	if (!attr && fg_load_relaxed(&fgi_real_table.rwlock_understood)) {
		memset(rwlock, 0, sizeof(*rwlock));
		return 0;
	}
	return fgi_real()->rwlock_init(rwlock, attr); /* zeroes all but the words that stay glibc's */
}

/* Leaves the lock as it is, as glibc's does: at the end of a program other threads may still use it. */
EXPORT int pthread_rwlock_destroy(pthread_rwlock_t *rwlock)
{
	return native(rwlock) ? 0 : fgi_real()->rwlock_destroy(rwlock);
}

/* glibc's second names, which it exports as well: an object must not meet both. */
#define NAME_OF(function) #function /* also where a macro renames it */
#define ALIAS(name, of)                                                                                                \
	extern __typeof__(of) name __attribute__((alias(NAME_OF(of)), visibility("default"), nothrow, leaf))
ALIAS(__pthread_rwlock_init, pthread_rwlock_init);
ALIAS(__pthread_rwlock_destroy, pthread_rwlock_destroy);
ALIAS(__pthread_rwlock_rdlock, pthread_rwlock_rdlock);
ALIAS(__pthread_rwlock_tryrdlock, pthread_rwlock_tryrdlock);
ALIAS(__pthread_rwlock_wrlock, pthread_rwlock_wrlock);
ALIAS(__pthread_rwlock_trywrlock, pthread_rwlock_trywrlock);
ALIAS(__pthread_rwlock_unlock, pthread_rwlock_unlock);
