/* SPDX-License-Identifier: MIT */
/* pthread_mutex_*: glibc's mutex kinds around FGI_LOCK_FILE's lock. docs/design/interposer.md has the state tables and
 * the rules M1 to M5. The lock is inlined once in each function; a normal mutex is one branch before it, and one
 * behind. */
#include "interpose/mutex.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "interpose/atfork.h"
#include "interpose/probes.h"
#include "interpose/real.h"
#include "lock/lock.h"
#include "runtime/arch/arch.h"
#include "runtime/cancel.h"
#include "runtime/cleanup.h"
#include "runtime/clock.h"
#include "runtime/deadline.h"
#include "runtime/node.h"
#include "runtime/thread.h"
#include FGI_LOCK_FILE

/* What a mutex of ours holds in glibc's 40 bytes. */
struct fgi_mutex {
	union {
		struct {
			uint32_t unused_low;
			uint32_t count; /* recursive: levels; M1 */
		};
		struct fgi_due due; /* normal: of condition variables; M5 */
	};
	uint32_t owner; /* recursive, errorcheck: the holder's tid, or 0; M1 */
	uint32_t unused_middle;
	int32_t kind; /* glibc's; constant from init to destroy */
	uint32_t unused_high;
	struct fg_lock lock;
};
_Static_assert(offsetof(struct fgi_mutex, kind) == FGI_GLIBC_KIND_AT, "the kind stays glibc's");
_Static_assert(offsetof(struct fgi_mutex, owner) == FGI_GLIBC_OWNER_AT, "debuggers look here");
_Static_assert(offsetof(struct fgi_mutex, count) == FGI_GLIBC_COUNT_AT, "debuggers look here");
_Static_assert(sizeof(struct fg_lock) <= FGI_LOCK_BYTES, "the contract of a lock (lock/lock.h)");
_Static_assert(sizeof(struct fgi_mutex) <= sizeof(pthread_mutex_t), "a lock must fit");
_Static_assert(_Alignof(struct fgi_mutex) <= _Alignof(pthread_mutex_t), "a lock must fit");

#define EXPORT __attribute__((visibility("default")))
#define UNDECIDED (-1)

#ifdef FGI_LOCK_NAMES_OWNER
#define NAMES_OWNER true
#else
#define NAMES_OWNER false
#endif

/* So long a thread that may be cancelled asynchronously waits without looking: long beside a queue's hand-over, short
 * beside what a user notices. */
#define ASYNC_NS 10000000u

static inline struct fgi_mutex *mutex_of(pthread_mutex_t *mutex)
{
	return (struct fgi_mutex *)mutex;
}

static inline bool is_normal(const pthread_mutex_t *mutex)
{
	return fg_likely(((const struct fgi_mutex *)mutex)->kind == FGI_GLIBC_NORMAL);
}

/* The kinds that have an owner. Only for mutexes of ours. */
static inline bool has_owner(const struct fgi_mutex *m)
{
	unsigned int kind = (unsigned int)m->kind & FGI_GLIBC_KINDS;

	return kind == FGI_GLIBC_RECURSIVE || kind == FGI_GLIBC_ERRORCHECK;
}

/* Before the lock is tried: what a call returns whose caller holds the mutex already, otherwise UNDECIDED. */
static inline int lock_again(struct fgi_mutex *m, int deadlock)
{
	if (!has_owner(m) || fg_load_relaxed(&m->owner) != fgi_self())
		return UNDECIDED;
	if (((unsigned int)m->kind & FGI_GLIBC_KINDS) == FGI_GLIBC_ERRORCHECK)
		return deadlock;
	if (m->count == UINT_MAX)
		return EAGAIN;
	m->count++;
	return 0;
}

/* The lock has been taken. */
static inline void set_owner(struct fgi_mutex *m)
{
	if (!has_owner(m))
		return;
	m->count = 1;
	fg_store_relaxed(&m->owner, fgi_self());
}

/* Without its owner: one that was cancelled as it took the lock. */
static void unlock_cancelled(void *mutex)
{
	if (is_normal(mutex))
		fgi_mutex_unlock(mutex);
	else
		fgi_unlock(&mutex_of(mutex)->lock);
}

/* By a thread that may be cancelled asynchronously: acts on it, without the lock, after ASYNC_NS at the latest. */
__attribute__((noinline, cold)) static int lock_in_turns(struct fgi_mutex *m, struct fgi_deadline until)
{
	struct _pthread_cleanup_buffer buffer;
	int result;

	do {
		bool last = until.time && fgi_remaining_ns(&until) <= ASYNC_NS;
		struct timespec turn = fgi_timespec(fgi_now_ns(CLOCK_MONOTONIC) + ASYNC_NS);
		bool suspended = fgi_async_suspend();

		result = fgi_timedlock(&m->lock, last ? until : FGI_DEADLINE(CLOCK_MONOTONIC, &turn));
		if (result == 0)
			_pthread_cleanup_push(&buffer, unlock_cancelled, m);
		fgi_async_resume(suspended);
		if (result && last)
			return ETIMEDOUT;
	} while (result);
	_pthread_cleanup_pop(&buffer, 0);
	return 0;
}

/* By a thread that may be cancelled asynchronously, or glibc's mutex. */
__attribute__((noinline, cold)) static int lock_rarely(pthread_mutex_t *mutex)
{
	struct fgi_mutex *m = mutex_of(mutex);
	int result;

	if (!fgi_mutex_native(mutex))
		return fgi_real()->mutex_lock(mutex);
	FGI_PROBE1(mutex_entry, mutex);
	result = lock_again(m, EDEADLK);
	if (result != UNDECIDED)
		return result;
	lock_in_turns(m, FGI_NEVER);
	set_owner(m);
	FGI_PROBE1(mutex_acquired, mutex);
	return 0;
}

EXPORT int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	struct fgi_mutex *m = mutex_of(mutex);
	int result;

	if (!is_normal(mutex) || fg_unlikely(fgi_async)) {
		if (fg_unlikely(fgi_async) || fg_unlikely(!fgi_mutex_native(mutex)))
			return lock_rarely(mutex);
		FGI_PROBE1(mutex_entry, mutex);
		result = lock_again(m, EDEADLK);
		if (result != UNDECIDED)
			return result;
	} else {
		FGI_PROBE1(mutex_entry, mutex);
	}
	fgi_lock(&m->lock);
	if (!is_normal(mutex))
		set_owner(m);
	FGI_PROBE1(mutex_acquired, mutex);
	return 0;
}

EXPORT int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
	struct fgi_mutex *m = mutex_of(mutex);
	int result;

	if (!is_normal(mutex)) {
		if (fg_unlikely(!fgi_mutex_native(mutex)))
			return fgi_real()->mutex_trylock(mutex);
		result = lock_again(m, EBUSY);
		if (result != UNDECIDED)
			return result;
	}
	if (!fgi_trylock(&m->lock))
		return EBUSY;
	if (!is_normal(mutex))
		set_owner(m);
	return 0;
}

/* Gives up the owner's level; UNDECIDED if the lock is to be released. */
static inline int drop_level(struct fgi_mutex *m)
{
	if (!has_owner(m))
		return UNDECIDED;
	if (fg_load_relaxed(&m->owner) != fgi_self())
		return EPERM;
	if (--m->count)
		return 0;
	fg_store_relaxed(&m->owner, 0);
	return UNDECIDED;
}

/* Does this thread hold the lock? True only if it does: it asks what the monitor asks of a lock with published intent,
 * whose word names its owner, and only for the lock that was taken last. */
static bool is_mine(const struct fgi_mutex *m)
{
	const uint32_t *word = (const uint32_t *)(uintptr_t)fg_thread.pending;

	return (uintptr_t)word - (uintptr_t)&m->lock < sizeof(m->lock) &&
	       (fg_load_relaxed(word) & FG_OWNER_MASK) == fg_thread.self;
}

/* Of a lock that names its owner. Others change the words meanwhile. */
static bool is_named(const struct fgi_mutex *m, uint32_t thread)
{
	const uint32_t *words = (const uint32_t *)&m->lock;
	bool named = false;

	for (size_t i = 0; i < sizeof(m->lock) / sizeof(words[0]); i++)
		named |= (fg_load_relaxed(&words[i]) & FG_OWNER_MASK) == thread;
	return named;
}

/* glibc's mutexes have their owner in the same place. */
static bool holds(void *mutex)
{
	const struct fgi_mutex *m = mutex_of(mutex);

	if (!is_normal(mutex) && fg_load_relaxed(&m->owner) == fgi_self())
		return true;
	return NAMES_OWNER && fgi_mutex_native(mutex) && is_named(m, fgi_self());
}

static struct fgi_due *due_of(void *mutex)
{
	struct fgi_mutex *m = mutex_of(mutex);

	return is_normal(mutex) && is_mine(m) ? &m->due : NULL;
}

/* The mutex is unlocked: threads that a signal handler has moved to it meanwhile are told. */
static inline void tell_moved(void *mutex)
{
	if (fg_unlikely(fg_load_relaxed(&fgi_cond_moved_to) == mutex))
		fgi_cond_tell_moved(mutex);
}

/* glibc's release is a locked instruction, and no streaming store before it becomes visible after it. Programs rely on
 * that, although such stores should be followed by a fence of the program's. */
static inline void unlock_fenced(struct fgi_mutex *m)
{
	fg_streaming_fence();
	fgi_unlock(&m->lock);
}

__attribute__((noinline)) static void unlock_and_tell(struct fgi_mutex *m)
{
	bool suspended = fgi_async_suspend();
	struct fgi_due_told told = fgi_due_take(&m->due, m);

	unlock_fenced(m);
	FGI_PROBE1(mutex_release, m);
	fgi_due_tell(told);
	fgi_async_resume(suspended);
	tell_moved(m);
}

EXPORT int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	struct fgi_mutex *m = mutex_of(mutex);
	int result;

	if (!is_normal(mutex)) {
		if (fg_unlikely(!fgi_mutex_native(mutex)))
			return fgi_real()->mutex_unlock(mutex);
		result = drop_level(m);
		if (result != UNDECIDED)
			return result;
	} else if (fg_unlikely(m->due.any)) {
		unlock_and_tell(m);
		return 0;
	}
	unlock_fenced(m);
	FGI_PROBE1(mutex_release, mutex);
	tell_moved(mutex);
	return 0;
}

static int unlock_to_wait(void *mutex)
{
	return fgi_mutex_unlock(mutex);
}

static int lock_after_wait(void *mutex)
{
	return fgi_mutex_lock(mutex);
}

const struct fgi_cond_mutexes fgi_pthread_mutexes = {unlock_to_wait, lock_after_wait, due_of, true, holds};

/* Only for mutexes of ours. */
static int lock_until(struct fgi_mutex *m, struct fgi_deadline until)
{
	int result = lock_again(m, EDEADLK);

	if (result != UNDECIDED)
		return result;
	if (!fgi_is_deadline(until)) {
		if (!fgi_trylock(&m->lock))
			return EINVAL; /* M4 */
	} else if (fgi_async ? lock_in_turns(m, until) : fgi_timedlock(&m->lock, until)) {
		return ETIMEDOUT;
	}
	set_owner(m);
	FGI_PROBE1(mutex_timedlock_acquired, m);
	return 0;
}

EXPORT int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict abs)
{
	if (!fgi_mutex_native(mutex))
		return fgi_real()->mutex_timedlock(mutex, abs);
	FGI_PROBE2(mutex_timedlock_entry, mutex, abs);
	return lock_until(mutex_of(mutex), FGI_DEADLINE(CLOCK_REALTIME, abs));
}

EXPORT int pthread_mutex_clocklock(pthread_mutex_t *restrict mutex, clockid_t clock,
				   const struct timespec *restrict abs)
{
	if (!fgi_mutex_native(mutex))
		return fgi_real()->mutex_clocklock(mutex, clock, abs);
	FGI_PROBE3(mutex_clocklock_entry, mutex, clock, abs);
	if (!fgi_is_clock(clock))
		return EINVAL;
	return lock_until(mutex_of(mutex), FGI_DEADLINE(clock, abs));
}

/* In the child of a fork: a mutex that its thread has held since before is not unlocked but initialised again, as many
 * allocators do. Then it is no longer held. Where the lock does not name its owner, any that is not free is taken for
 * the thread's, and memory that held no mutex may look like one: that makes `held` too small by at most the number of
 * locks that were carried, and costs speed only. */
__attribute__((noinline, cold)) static void forget_carried(const struct fgi_mutex *m)
{
	uint32_t words[sizeof(m->lock) / sizeof(uint32_t)], any = 0;

	memcpy(words, &m->lock, sizeof(words));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		any |= words[i];
	if (fg_thread.held <= 0 || !(NAMES_OWNER ? is_named(m, fgi_carried.forker) : any != 0))
		return;
	fgi_carried.locks--;
	fgi_held_lower();
}

EXPORT int pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr)
{
	int result;

	if (fg_unlikely(fg_load_relaxed(&fgi_nodes_carried)))
		fgi_nodes_forget(mutex, sizeof(*mutex));
	if (fg_unlikely(fgi_carried.locks > 0))
		forget_carried(mutex_of(mutex));
	if (!attr) {
		memset(mutex, 0, sizeof(*mutex));
		FGI_PROBE1(mutex_init, mutex);
		return 0;
	}
	result = fgi_real()->mutex_init(mutex, attr);
	if (result == 0 && fgi_mutex_native(mutex)) {
		mutex_of(mutex)->kind &= (int32_t)FGI_GLIBC_KINDS; /* an explicit normal is as fast as the default */
		FGI_PROBE1(mutex_init, mutex);
	}
	return result;
}

EXPORT int pthread_mutex_destroy(pthread_mutex_t *mutex)
{
	struct fgi_mutex *m = mutex_of(mutex);

	if (!fgi_mutex_native(mutex))
		return fgi_real()->mutex_destroy(mutex);
	FGI_PROBE1(mutex_destroy, mutex);
	if (!fgi_trylock(&m->lock)) /* M3 */
		return EBUSY;
	fgi_unlock(&m->lock);
#ifdef FGI_LOCK_HAS_DESTROY
	fgi_lock_destroy(&m->lock);
#endif
	m->kind = FGI_GLIBC_DESTROYED;
	return 0;
}

EXPORT int pthread_mutex_consistent(pthread_mutex_t *mutex)
{
	return fgi_mutex_native(mutex) ? EINVAL : fgi_real()->mutex_consistent(mutex);
}

EXPORT int pthread_mutex_getprioceiling(const pthread_mutex_t *restrict mutex, int *restrict ceiling)
{
	return fgi_mutex_native(mutex) ? EINVAL : fgi_real()->mutex_getprioceiling(mutex, ceiling);
}

EXPORT int pthread_mutex_setprioceiling(pthread_mutex_t *restrict mutex, int ceiling, int *restrict old)
{
	return fgi_mutex_native(mutex) ? EINVAL : fgi_real()->mutex_setprioceiling(mutex, ceiling, old);
}

void fgi_mutex_after_bare_fork(void)
{
#ifdef FGI_LOCK_HAS_BARE_FORK
	fgi_lock_after_bare_fork();
#endif
}

/* Calls from inside, and glibc's second names, which it exports as well: an object must not meet both. */
#define NAME_OF(function) #function /* also where a macro renames it */
#define ALIAS(type, name, of)                                                                                          \
	extern __typeof__(of) name __attribute__((alias(NAME_OF(of)), visibility(type), nothrow, leaf))
ALIAS("hidden", fgi_mutex_lock, pthread_mutex_lock);
ALIAS("hidden", fgi_mutex_unlock, pthread_mutex_unlock);
ALIAS("default", __pthread_mutex_init, pthread_mutex_init);
ALIAS("default", __pthread_mutex_destroy, pthread_mutex_destroy);
ALIAS("default", __pthread_mutex_lock, pthread_mutex_lock);
ALIAS("default", __pthread_mutex_trylock, pthread_mutex_trylock);
ALIAS("default", __pthread_mutex_unlock, pthread_mutex_unlock);
