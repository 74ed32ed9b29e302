/* SPDX-License-Identifier: MIT */
/* fg-calls: what pthread's calls and a semaphore's cost when no other thread is in their way. A line for each pair of
 * calls, as CSV: what is called, and the nanoseconds of the best of many batches. LD_PRELOAD decides whose calls they
 * are. A second thread sleeps meanwhile, as in worker/uncontended.c. Exit status: 0, 1 the system refused, 2 usage. */
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <threads.h>
#include <unistd.h>

#include "runtime/atomic.h"
#include "worker/clock.h"
#include "worker/status.h"

enum { BATCHES = 1000, PAIRS = 5000 };

static pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t held = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP; /* by the thread that measures */
static pthread_mutex_t errorcheck = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_mutex_t adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t new_mutex;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER, new_rwlock;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER, new_cond;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_spinlock_t spin;
static sem_t sem;
static mtx_t mtx;

static void nothing(void)
{
}

/* The order of the lines. What is measured of a call by itself is its own pair. */
#define EACH(PAIR)                                                                                                     \
	PAIR(mutex, pthread_mutex_lock(&normal), pthread_mutex_unlock(&normal))                                        \
	PAIR(mutex_try, pthread_mutex_trylock(&normal), pthread_mutex_unlock(&normal))                                 \
	PAIR(mutex_recursive, pthread_mutex_lock(&recursive), pthread_mutex_unlock(&recursive))                        \
	PAIR(mutex_recursive_again, pthread_mutex_lock(&held), pthread_mutex_unlock(&held))                            \
	PAIR(mutex_errorcheck, pthread_mutex_lock(&errorcheck), pthread_mutex_unlock(&errorcheck))                     \
	PAIR(mutex_adaptive, pthread_mutex_lock(&adaptive), pthread_mutex_unlock(&adaptive))                           \
	PAIR(mutex_c11, mtx_lock(&mtx), mtx_unlock(&mtx))                                                              \
	PAIR(rwlock_read, pthread_rwlock_rdlock(&rwlock), pthread_rwlock_unlock(&rwlock))                              \
	PAIR(rwlock_write, pthread_rwlock_wrlock(&rwlock), pthread_rwlock_unlock(&rwlock))                             \
	PAIR(spin, pthread_spin_lock(&spin), pthread_spin_unlock(&spin))                                               \
	PAIR(sem_post_and_wait, sem_post(&sem), sem_wait(&sem))                                                        \
	PAIR(sem_post_and_try, sem_post(&sem), sem_trywait(&sem))                                                      \
	PAIR(cond_signal, pthread_cond_signal(&cond), 0)                                                               \
	PAIR(cond_broadcast, pthread_cond_broadcast(&cond), 0)                                                         \
	PAIR(once, pthread_once(&once, nothing), 0)                                                                    \
	PAIR(mutex_init, pthread_mutex_init(&new_mutex, NULL), pthread_mutex_destroy(&new_mutex))                      \
	PAIR(cond_init, pthread_cond_init(&new_cond, NULL), pthread_cond_destroy(&new_cond))                           \
	PAIR(rwlock_init, pthread_rwlock_init(&new_rwlock, NULL), pthread_rwlock_destroy(&new_rwlock))

#define PAIR(name, first, second)                                                                                      \
	__attribute__((noinline, aligned(64))) static void run_##name(void)                                            \
	{                                                                                                              \
		for (int i = 0; i < PAIRS; i++) {                                                                      \
			(void)(first);                                                                                 \
			(void)(second);                                                                                \
			fg_compiler_barrier();                                                                         \
		}                                                                                                      \
	}
EACH(PAIR)
#undef PAIR

static const struct {
	const char *name;
	void (*run)(void);
} pairs[] = {
#define PAIR(name, first, second) {#name, run_##name},
	EACH(PAIR)
#undef PAIR
};

static double best_ns(void (*run)(void))
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < BATCHES; i++) {
		uint64_t start = fgb_ns(), ns;

		run();
		ns = fgb_ns() - start;
		if (ns < best)
			best = ns;
	}
	return (double)best / PAIRS;
}

static void *sleep_for_ever(void *unused)
{
	(void)unused;
	for (;;)
		pause();
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t sleeper;
	int error;

	(void)argv;
	if (argc > 1) {
		fputs("fg-calls: takes no argument\n", stderr);
		return FGB_USAGE;
	}
	error = pthread_create(&sleeper, NULL, sleep_for_ever, NULL);
	if (error) {
		fprintf(stderr, "fg-calls: cannot create a thread: %s\n", strerror(error));
		return FGB_FAILED;
	}
	pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
	sem_init(&sem, 0, 0);
	mtx_init(&mtx, mtx_plain);
	pthread_mutex_lock(&held);
	puts("calls,ns");
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		printf("%s,%.3f\n", pairs[i].name, best_ns(pairs[i].run));
	return fflush(stdout) ? FGB_FAILED : 0;
}
