/* SPDX-License-Identifier: MIT */
/* Small programs of which it is known whether FlexGuard's locks help: `flexguard advise` has to find it out.
 *
 *   programs NAME [SCALE]     SCALE times the usual work (1: 0.1 to 1.2 s on two contexts of 2.6 GHz) */
#include <pthread.h>
#include <semaphore.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST_THREADS 64

extern char **environ;

static double scale = 1;
static volatile uint64_t sink;

/* About n / 2 ns of arithmetic, without memory. */
static void compute(uint64_t n)
{
	uint64_t x = n | 1;

	for (uint64_t i = 0; i < n; i++)
		x = x * 6364136223846793005u + 1442695040888963407u;
	sink = x;
}

static uint64_t scaled(uint64_t n)
{
	return (uint64_t)((double)n * scale) + 1;
}

static void run(unsigned threads, void *(*of)(void *))
{
	pthread_t ids[MOST_THREADS];

	for (unsigned i = 0; i < threads; i++)
		if (pthread_create(&ids[i], NULL, of, (void *)(uintptr_t)i))
			exit(1);
	for (unsigned i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
}

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER, c2 = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t ring[MOST_THREADS];
static uint64_t shared, queued;

/* Many threads, one mutex, short sections. */
static void *hot(void *unused)
{
	for (uint64_t i = scaled(400000); i; i--) {
		pthread_mutex_lock(&m);
		shared++;
		compute(20);
		pthread_mutex_unlock(&m);
		compute(20);
	}
	return unused;
}

/* A bounded buffer of one place: each item is a hand-over through a condition variable. */
static void *produce_or_consume(void *number)
{
	bool produces = (uintptr_t)number & 1;

	for (uint64_t i = scaled(20000); i; i--) {
		pthread_mutex_lock(&m);
		while (queued == (produces ? 1 : 0))
			pthread_cond_wait(produces ? &c : &c2, &m);
		queued += produces ? 1 : (uint64_t)-1;
		pthread_cond_signal(produces ? &c2 : &c);
		pthread_mutex_unlock(&m);
	}
	return NULL;
}

/* Readers with sections so short that the lock's own memory is contended. */
static void *read_briefly(void *unused)
{
	for (uint64_t i = scaled(2000000); i; i--) {
		pthread_rwlock_rdlock(&rw);
		pthread_rwlock_unlock(&rw);
	}
	return unused;
}

static void *meet(void *unused)
{
	for (uint64_t i = scaled(20000); i; i--) {
		compute(300);
		pthread_barrier_wait(&barrier);
	}
	return unused;
}

/* Threads pass a turn around a ring of semaphores. */
static unsigned ring_threads;

static void *pass_on(void *number)
{
	unsigned own = (unsigned)(uintptr_t)number;

	for (uint64_t i = scaled(40000 / ring_threads); i; i--) {
		while (sem_wait(&ring[own]))
			;
		sem_post(&ring[(own + 1) % ring_threads]);
	}
	return NULL;
}

/* A semaphore that no thread waits for. */
static void *post_and_take(void *unused)
{
	for (uint64_t i = scaled(20000000); i; i--) {
		sem_post(&ring[0]);
		while (sem_wait(&ring[0]))
			;
	}
	return unused;
}

/* A condition variable that no thread waits for. */
static void *signal_nobody(void *unused)
{
	for (uint64_t i = scaled(20000000); i; i--)
		pthread_cond_signal(&c);
	return unused;
}

/* Each of many short children loads the interposer. */
static void *start_children(void *unused)
{
	static char program[] = "/bin/true";
	char *const arguments[] = {program, NULL};

	for (uint64_t i = scaled(200); i; i--) {
		pid_t child;

		if (posix_spawn(&child, program, NULL, NULL, arguments, environ))
			exit(1);
		waitpid(child, NULL, 0);
	}
	return unused;
}

static void *seldom(void *unused)
{
	for (uint64_t i = scaled(4000); i; i--) {
		compute(100000);
		pthread_mutex_lock(&m);
		shared++;
		pthread_mutex_unlock(&m);
	}
	return unused;
}

/* The work of a run differs by half, whatever the lock. */
static void *seldom_and_noisy(void *unused)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	for (uint64_t i = scaled(3000 + (uint64_t)now.tv_nsec / 1000 % 1500); i; i--) {
		compute(100000);
		pthread_mutex_lock(&m);
		shared++;
		pthread_mutex_unlock(&m);
	}
	return unused;
}

/* The mutex is held while its holder sleeps, as for input and output. */
static void *hold_and_sleep(void *unused)
{
	for (uint64_t i = scaled(100); i; i--) {
		pthread_mutex_lock(&m);
		usleep(1000);
		pthread_mutex_unlock(&m);
	}
	return unused;
}

/* Readers alone, with long sections. */
static void *read_long(void *unused)
{
	for (uint64_t i = scaled(2000); i; i--) {
		pthread_rwlock_rdlock(&rw);
		compute(200000);
		pthread_rwlock_unlock(&rw);
	}
	return unused;
}

static void run_ring(unsigned threads)
{
	ring_threads = threads;
	for (unsigned i = 0; i < threads; i++)
		sem_init(&ring[i], 0, i == 0);
	run(threads, pass_on);
}

static void run_barrier(unsigned threads)
{
	pthread_barrier_init(&barrier, NULL, threads);
	run(threads, meet);
}

static const struct {
	const char *name;
	unsigned threads;
	void *(*of)(void *);
	void (*by)(unsigned);
} programs[] = {
	{"mutex", 16, hot, NULL},
	{"condition", 4, produce_or_consume, NULL},
	{"reads", 2, read_briefly, NULL},
	{"barrier", 8, NULL, run_barrier},
	{"semaphore", 8, NULL, run_ring},
	{"posts", 1, post_and_take, NULL},
	{"signals", 1, signal_nobody, NULL},
	{"children", 1, start_children, NULL},
	{"seldom", 2, seldom, NULL},
	{"noisy", 2, seldom_and_noisy, NULL},
	{"sleep", 4, hold_and_sleep, NULL},
	{"readers", 4, read_long, NULL},
};

int main(int argc, char **argv)
{
	if (argc > 2)
		scale = strtod(argv[2], NULL);
	for (size_t i = 0; argc > 1 && i < sizeof(programs) / sizeof(programs[0]); i++) {
		if (strcmp(programs[i].name, argv[1]) != 0)
			continue;
		if (programs[i].by)
			programs[i].by(programs[i].threads);
		else
			run(programs[i].threads, programs[i].of);
		return 0;
	}
	fprintf(stderr, "programs NAME [SCALE]\n");
	return 2;
}
