/* SPDX-License-Identifier: MIT */
/* The profiler of `flexguard profile`: pthread_mutex_* and the waits on condition variables, counted and passed on to
 * the next definition, which is a lock's interposer or glibc. It is preloaded before both.
 *
 * A lock is first tried: an acquisition is contended if that fails. This costs one failed attempt on a lock that is
 * held, and does not overtake the waiters of a queue, since the trylock of a queue lock fails while there are any.
 *
 * What is timed is remembered when the lock is taken, and added to the sums after it is released. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "profile/record.h"

#define EXPORT __attribute__((visibility("default")))
#define FRAME __builtin_frame_address(0)
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

enum { LOCK, TRYLOCK, TIMEDLOCK, CLOCKLOCK };

/* A call that acquires: how it waits, and who called. */
struct call {
	int how;
	clockid_t clock;
	const struct timespec *until;
	const void *frame;
};

static int wait_for(pthread_mutex_t *mutex, const struct call *call)
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

static bool is_acquired(int result)
{
	return result == 0 || result == EOWNERDEAD;
}

static struct fgp_timed *find_timed(const pthread_mutex_t *mutex)
{
	for (uint32_t i = fgp_thread.timed; i-- > 0;)
		if (fgp_thread.held[i].mutex == (uintptr_t)mutex)
			return &fgp_thread.held[i];
	return NULL;
}

static void forget(const struct fgp_timed *timed)
{
	fgp_thread.held[timed - fgp_thread.held] = fgp_thread.held[--fgp_thread.timed];
}

/* Another level of a recursive mutex that this thread holds. Of another mutex it says that a different thread has
 * unlocked it. */
static bool is_another_level(const pthread_mutex_t *mutex)
{
	struct fgp_timed *timed = find_timed(mutex);

	if (!timed)
		return false;
	if ((mutex->__data.__kind & KINDS) == PTHREAD_MUTEX_RECURSIVE_NP) {
		timed->again++;
		return true;
	}
	forget(timed);
	return false;
}

static void remember(const struct fgp_timed *timed)
{
	if (fgp_thread.timed < FGP_TIMED)
		fgp_thread.held[fgp_thread.timed++] = *timed;
	else if (fgp_profile)
		fg_fetch_add_relaxed(&fgp_profile->lost_holds, 1u);
}

/* A thread without counts of the lock counts in the lock's, and times nothing. */
static int acquire_uncounted(pthread_mutex_t *mutex, const struct call *call)
{
	int result = next.trylock(mutex);
	struct fgp_event event = {.contended = result == EBUSY};

	if (result == EBUSY)
		result = wait_for(mutex, call);
	event.acquired = is_acquired(result);
	event.failed = !event.acquired;
	event.contended &= event.acquired;
	fgp_count_shared((uintptr_t)mutex, event);
	return result;
}

/* `result` is that of a trylock. */
static int acquire_timed(pthread_mutex_t *mutex, const struct call *call, struct fg_profile_counts *counts, int result,
			 struct fgp_timed *timed)
{
	bool contended = result == EBUSY;

	if (contended && call->how != TRYLOCK) {
		timed->wait_weight = fgp_wait_weight(counts);
		if (timed->wait_weight) {
			if (timed->site == FGP_NONE)
				timed->site = fgp_site(counts->lock, call->frame);
			timed->since_ns = fgp_now();
		}
		result = wait_for(mutex, call);
	}
	if (!is_acquired(result)) {
		counts->failed++;
		return result;
	}
	counts->acquisitions++;
	if (contended) {
		counts->contended++;
		fgp_wait_passed(counts);
	}
	fgp_hold_passed(counts);
	if (is_another_level(mutex))
		return result;
	if (timed->hold_weight || timed->wait_weight) {
		uint64_t now = fgp_now();

		timed->wait_ns = now - timed->since_ns;
		timed->since_ns = now;
		remember(timed);
	}
	return result;
}

__attribute__((noinline)) static int acquire_slow(pthread_mutex_t *mutex, const struct call *call,
						  struct fg_profile_counts *counts)
{
	struct fgp_timed timed = {
		.mutex = (uintptr_t)mutex,
		.lock = counts->lock,
		.site = FGP_NONE,
		.hold_weight = fgp_hold_weight(counts),
	};

	if (timed.hold_weight)
		timed.site = fgp_site(counts->lock, call->frame);
	return acquire_timed(mutex, call, counts, next.trylock(mutex), &timed);
}

__attribute__((noinline)) static int acquire_contended(pthread_mutex_t *mutex, const struct call *call,
						       struct fg_profile_counts *counts, int result)
{
	struct fgp_timed timed = {.mutex = (uintptr_t)mutex, .lock = counts->lock, .site = FGP_NONE};

	return acquire_timed(mutex, call, counts, result, &timed);
}

/* The first call for a lock, or one without counts. */
__attribute__((noinline)) static int acquire_first(pthread_mutex_t *mutex, const struct call *call)
{
	struct fg_profile_counts *counts;

	need_next();
	counts = fgp_counts_slow((uintptr_t)mutex);
	return counts ? acquire_slow(mutex, call, counts) : acquire_uncounted(mutex, call);
}

static inline __attribute__((always_inline)) int acquire(pthread_mutex_t *mutex, int how, clockid_t clock,
							 const struct timespec *until, const void *frame)
{
#define CALL (&(struct call){how, clock, until, frame})
	struct fg_profile_counts *counts = fgp_counts((uintptr_t)mutex);
	int result;

	if (fg_unlikely(!counts))
		return acquire_first(mutex, CALL);
	if (fg_unlikely(!counts->until_hold || fgp_thread.timed))
		return acquire_slow(mutex, CALL, counts);
	result = next.trylock(mutex);
	if (fg_unlikely(result != 0))
		return acquire_contended(mutex, CALL, counts, result);
	counts->acquisitions++;
	counts->until_hold--;
	return 0;
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

/* The memory of a mutex may be freed as soon as it is unlocked, so it is not touched after that. */
__attribute__((noinline)) static int unlock_timed(pthread_mutex_t *mutex)
{
	struct fgp_timed *found = find_timed(mutex), timed;
	uint64_t until;
	int result;

	if (!found)
		return next.unlock(mutex);
	if (found->again) {
		found->again--;
		return next.unlock(mutex);
	}
	timed = *found;
	forget(found);
	until = timed.hold_weight ? fgp_now() : timed.since_ns;
	result = next.unlock(mutex);
	fgp_commit(&timed, until);
	return result;
}

EXPORT int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	need_next();
	if (fg_unlikely(fgp_thread.timed))
		return unlock_timed(mutex);
	return next.unlock(mutex);
}

/* A wait on a condition variable ends the hold. */
static void wait_begins(const pthread_mutex_t *mutex)
{
	struct fgp_timed *found;

	need_next();
	if (!fgp_thread.timed)
		return;
	found = find_timed(mutex);
	if (!found)
		return;
	fgp_commit(found, fgp_now());
	forget(found);
}

/* The mutex is held again. Whether the thread waited for it, or for the signal only, is not known. */
static int wait_ends(const pthread_mutex_t *mutex, int result, const void *frame)
{
	struct fg_profile_counts *counts;
	struct fgp_timed timed = {.mutex = (uintptr_t)mutex};

	if (!is_acquired(result) && result != ETIMEDOUT)
		return result;
	counts = fgp_counts((uintptr_t)mutex);
	if (!counts)
		counts = fgp_counts_slow((uintptr_t)mutex);
	if (!counts) {
		fgp_count_shared((uintptr_t)mutex, (struct fgp_event){.cond_wait = true});
		return result;
	}
	timed.hold_weight = fgp_hold_weight(counts);
	counts->cond_waits++;
	fgp_hold_passed(counts);
	if (timed.hold_weight) {
		timed.lock = counts->lock;
		timed.site = fgp_site(counts->lock, frame);
		timed.since_ns = fgp_now();
		remember(&timed);
	}
	return result;
}

EXPORT int pthread_cond_wait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex)
{
	wait_begins(mutex);
	return wait_ends(mutex, next.wait(cond, mutex), FRAME);
}

EXPORT int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
				  const struct timespec *restrict until)
{
	wait_begins(mutex);
	return wait_ends(mutex, next.timedwait(cond, mutex, until), FRAME);
}

EXPORT int pthread_cond_clockwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex, clockid_t clock,
				  const struct timespec *restrict until)
{
	wait_begins(mutex);
	return wait_ends(mutex, next.clockwait(cond, mutex, clock, until), FRAME);
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
