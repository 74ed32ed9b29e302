/* SPDX-License-Identifier: MIT */
/* Models of what glibc's pthread functions do, on the same objects, written from how they are documented to work; of
 * the objects' words only those below are used. Instrumented, so that their accesses cost what others' do.
 *
 * A program has them under the names that it calls, unless it is linked with the interposer's functions
 * (interposed.c). */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "runtime/arch/arch.h"
#include "runtime/atomic.h"
#include "runtime/futex.h"

#define MODEL(type, name, ...)                                                                                         \
	type fgs_model_##name(__VA_ARGS__);                                                                            \
	type __wrap_##name(__VA_ARGS__) __attribute__((weak, alias("fgs_model_" #name)));                              \
	type fgs_model_##name(__VA_ARGS__)

/* ---- the mutex: 0 free, 1 held, 2 held and perhaps waited for --------------------------------------------------- */

struct mutex {
	uint32_t word, depth, owner, users;
};

static struct mutex *mutex_of(pthread_mutex_t *m)
{
	return (struct mutex *)(void *)m;
}

static __attribute__((noinline)) void wait_for(uint32_t *word)
{
	if (fg_load_relaxed(word) == 2)
		fgi_futex_wait(word, 2, CLOCK_MONOTONIC, NULL);
	while (fg_xchg_acquire(word, 2) != 0)
		fgi_futex_wait(word, 2, CLOCK_MONOTONIC, NULL);
}

MODEL(int, pthread_mutex_lock, pthread_mutex_t *mutex)
{
	struct mutex *m = mutex_of(mutex);

	if (fg_cas_acquire(&m->word, 0, 1) != 0)
		wait_for(&m->word);
	m->owner = 1; /* its id; and the number of users is counted */
	m->users++;
	return 0;
}

MODEL(int, pthread_mutex_trylock, pthread_mutex_t *mutex)
{
	struct mutex *m = mutex_of(mutex);

	if (fg_cas_acquire(&m->word, 0, 1) != 0)
		return EBUSY;
	m->owner = 1;
	m->users++;
	return 0;
}

MODEL(int, pthread_mutex_unlock, pthread_mutex_t *mutex)
{
	struct mutex *m = mutex_of(mutex);

	m->owner = 0;
	m->users--;
	if (fg_xchg_release(&m->word, 0) == 2)
		fgi_futex_wake(&m->word, 1);
	return 0;
}

/* ---- the semaphore: its value, and how many threads wait -------------------------------------------------------- */

struct semaphore {
	uint32_t value, waiters;
};

MODEL(int, sem_init, sem_t *sem, int shared, unsigned int value)
{
	struct semaphore *s = (struct semaphore *)(void *)sem;

	(void)shared;
	fg_store_relaxed(&s->value, value);
	fg_store_relaxed(&s->waiters, 0);
	return 0;
}

static bool take(struct semaphore *s)
{
	uint32_t value = fg_load_relaxed(&s->value), found;

	for (; value; value = found) {
		found = fg_cas_acquire(&s->value, value, value - 1);
		if (found == value)
			return true;
	}
	return false;
}

MODEL(int, sem_clockwait, sem_t *sem, clockid_t clock, const struct timespec *until)
{
	struct semaphore *s = (struct semaphore *)(void *)sem;
	int error = 0;

	if (take(s))
		return 0;
	fg_fetch_add_relaxed(&s->waiters, 1);
	while (error != ETIMEDOUT && !take(s))
		error = fgi_futex_wait(&s->value, 0, clock, until);
	fg_fetch_add_relaxed(&s->waiters, -1u);
	if (error != ETIMEDOUT)
		return 0;
	errno = ETIMEDOUT;
	return -1;
}

MODEL(int, sem_timedwait, sem_t *sem, const struct timespec *until)
{
	return fgs_model_sem_clockwait(sem, CLOCK_REALTIME, until);
}

MODEL(int, sem_wait, sem_t *sem)
{
	return fgs_model_sem_clockwait(sem, CLOCK_MONOTONIC, NULL);
}

MODEL(int, sem_trywait, sem_t *sem)
{
	if (take((struct semaphore *)(void *)sem))
		return 0;
	errno = EAGAIN;
	return -1;
}

MODEL(int, sem_post, sem_t *sem)
{
	struct semaphore *s = (struct semaphore *)(void *)sem;

	fg_fetch_add_release(&s->value, 1);
	if (fg_load_relaxed(&s->waiters))
		fgi_futex_wake(&s->value, 1);
	return 0;
}

/* ---- the barrier: how many arrived, in which round -------------------------------------------------------------- */

struct barrier {
	uint32_t count, arrived, round;
};

MODEL(int, pthread_barrier_init, pthread_barrier_t *barrier, const pthread_barrierattr_t *attributes,
      unsigned int count)
{
	struct barrier *b = (struct barrier *)(void *)barrier;

	(void)attributes;
	*b = (struct barrier){.count = count};
	return 0;
}

MODEL(int, pthread_barrier_wait, pthread_barrier_t *barrier)
{
	struct barrier *b = (struct barrier *)(void *)barrier;
	uint32_t round = fg_load_acquire(&b->round);

	if (fg_fetch_add_acq_rel(&b->arrived, 1) + 1 == b->count) {
		fg_store_relaxed(&b->arrived, 0);
		fg_store_release(&b->round, round + 1);
		fgi_futex_wake(&b->round, INT32_MAX);
		return PTHREAD_BARRIER_SERIAL_THREAD;
	}
	while (fg_load_acquire(&b->round) == round)
		fgi_futex_wait(&b->round, round, CLOCK_MONOTONIC, NULL);
	return 0;
}

MODEL(int, pthread_barrier_destroy, pthread_barrier_t *barrier)
{
	(void)barrier;
	return 0;
}

/* ---- timed calls of the mutex ---------------------------------------------------------------------------------- */

MODEL(int, pthread_mutex_clocklock, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until)
{
	struct mutex *m = mutex_of(mutex);

	if (fg_cas_acquire(&m->word, 0, 1) != 0) {
		while (fg_xchg_acquire(&m->word, 2) != 0)
			if (fgi_futex_wait(&m->word, 2, clock, until) == ETIMEDOUT)
				return ETIMEDOUT;
	}
	m->owner = 1;
	m->users++;
	return 0;
}

MODEL(int, pthread_mutex_timedlock, pthread_mutex_t *mutex, const struct timespec *until)
{
	return fgs_model_pthread_mutex_clocklock(mutex, CLOCK_REALTIME, until);
}

/* The condition variable: how many signals there were. glibc's groups, by which a signal reaches no later waiter,
 * are left out: a waiter that comes at that moment may wake up in vain. */

struct condition {
	uint32_t signals, waiters;
};

static struct condition *condition_of(pthread_cond_t *c)
{
	return (struct condition *)(void *)c;
}

MODEL(int, pthread_cond_clockwait, pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
      const struct timespec *until)
{
	struct condition *c = condition_of(cond);
	uint32_t signals;
	int error;

	fg_fetch_add_relaxed(&c->waiters, 1);
	signals = fg_load_acquire(&c->signals);
	fgs_model_pthread_mutex_unlock(mutex);
	error = fgi_futex_wait(&c->signals, signals, clock, until);
	fg_fetch_add_relaxed(&c->waiters, -1u);
	fgs_model_pthread_mutex_lock(mutex);
	return error == ETIMEDOUT ? ETIMEDOUT : 0;
}

MODEL(int, pthread_cond_wait, pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	return fgs_model_pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, NULL);
}

MODEL(int, pthread_cond_timedwait, pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
	return fgs_model_pthread_cond_clockwait(cond, mutex, CLOCK_REALTIME, until);
}

static int notify(pthread_cond_t *cond, int most)
{
	struct condition *c = condition_of(cond);

	if (fg_load_acquire(&c->waiters)) {
		fg_fetch_add_release(&c->signals, 1);
		fgi_futex_wake(&c->signals, most);
	}
	return 0;
}

MODEL(int, pthread_cond_signal, pthread_cond_t *cond)
{
	return notify(cond, 1);
}

MODEL(int, pthread_cond_broadcast, pthread_cond_t *cond)
{
	return notify(cond, INT32_MAX);
}

MODEL(int, pthread_cond_init, pthread_cond_t *cond, const pthread_condattr_t *attributes)
{
	(void)attributes;
	*condition_of(cond) = (struct condition){0};
	return 0;
}

MODEL(int, pthread_cond_destroy, pthread_cond_t *cond)
{
	(void)cond;
	return 0;
}

/* ---- the read-write lock: readers go before writers, as glibc has it by default ---------------------------------- */

#define WRITER 0x80000000u

struct rwlock {
	uint32_t word;    /* how many read, or WRITER */
	uint32_t waiters; /* of both kinds */
	uint32_t changes; /* what they sleep on */
};

static struct rwlock *rwlock_of(pthread_rwlock_t *l)
{
	return (struct rwlock *)(void *)l;
}

MODEL(int, pthread_rwlock_init, pthread_rwlock_t *lock, const pthread_rwlockattr_t *attributes)
{
	(void)attributes;
	*rwlock_of(lock) = (struct rwlock){0};
	return 0;
}

MODEL(int, pthread_rwlock_destroy, pthread_rwlock_t *lock)
{
	(void)lock;
	return 0;
}

MODEL(int, pthread_rwlock_tryrdlock, pthread_rwlock_t *lock)
{
	struct rwlock *l = rwlock_of(lock);

	if (!(fg_fetch_add_acquire(&l->word, 1) & WRITER))
		return 0;
	fg_fetch_add_relaxed(&l->word, -1u);
	return EBUSY;
}

MODEL(int, pthread_rwlock_trywrlock, pthread_rwlock_t *lock)
{
	return fg_cas_acquire(&rwlock_of(lock)->word, 0, WRITER) == 0 ? 0 : EBUSY;
}

static int await(pthread_rwlock_t *lock, int (*try)(pthread_rwlock_t *))
{
	struct rwlock *l = rwlock_of(lock);
	uint32_t changes;

	if (try(lock) == 0)
		return 0;
	fg_fetch_add_acq_rel(&l->waiters, 1);
	for (;;) {
		changes = fg_load_acquire(&l->changes);
		if (try(lock) == 0)
			break;
		fgi_futex_wait(&l->changes, changes, CLOCK_MONOTONIC, NULL);
	}
	fg_fetch_add_relaxed(&l->waiters, -1u);
	return 0;
}

MODEL(int, pthread_rwlock_rdlock, pthread_rwlock_t *lock)
{
	return await(lock, fgs_model_pthread_rwlock_tryrdlock);
}

MODEL(int, pthread_rwlock_wrlock, pthread_rwlock_t *lock)
{
	return await(lock, fgs_model_pthread_rwlock_trywrlock);
}

MODEL(int, pthread_rwlock_unlock, pthread_rwlock_t *lock)
{
	struct rwlock *l = rwlock_of(lock);
	uint32_t left;

	if (fg_load_relaxed(&l->word) & WRITER)
		left = fg_fetch_and_release(&l->word, ~WRITER) & ~WRITER;
	else
		left = fg_fetch_add_release(&l->word, -1u) - 1;
	if ((left & ~WRITER) == 0 && fg_load_acquire(&l->waiters)) {
		fg_fetch_add_release(&l->changes, 1);
		fgi_futex_wake(&l->changes, INT32_MAX);
	}
	return 0;
}

/* ---- the spin lock ----------------------------------------------------------------------------------------------- */

MODEL(int, pthread_spin_lock, pthread_spinlock_t *lock)
{
	uint32_t *word = (uint32_t *)(uintptr_t)lock;

	while (fg_xchg_acquire(word, 1) != 0)
		while (fg_load_relaxed(word))
			fg_pause();
	return 0;
}

MODEL(int, pthread_spin_trylock, pthread_spinlock_t *lock)
{
	return fg_xchg_acquire((uint32_t *)(uintptr_t)lock, 1) ? EBUSY : 0;
}

MODEL(int, pthread_spin_unlock, pthread_spinlock_t *lock)
{
	fg_store_release((uint32_t *)(uintptr_t)lock, 0);
	return 0;
}

MODEL(int, pthread_spin_init, pthread_spinlock_t *lock, int shared)
{
	(void)shared;
	fg_store_relaxed((uint32_t *)(uintptr_t)lock, 0);
	return 0;
}
