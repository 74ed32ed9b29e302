/* SPDX-License-Identifier: MIT */
/* Models of what glibc's pthread functions do, on the same objects, written from how they are documented to work; of
 * the objects' words only those below are used. Instrumented, so that their accesses cost what others' do. */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "runtime/atomic.h"
#include "runtime/futex.h"

#define MODEL(type, name, ...)                                                                                         \
	type __wrap_##name(__VA_ARGS__);                                                                               \
	type __wrap_##name(__VA_ARGS__)

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

MODEL(int, sem_wait, sem_t *sem)
{
	struct semaphore *s = (struct semaphore *)(void *)sem;

	if (take(s))
		return 0;
	fg_fetch_add_relaxed(&s->waiters, 1);
	while (!take(s))
		fgi_futex_wait(&s->value, 0, CLOCK_MONOTONIC, NULL);
	fg_fetch_add_relaxed(&s->waiters, -1u);
	return 0;
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
