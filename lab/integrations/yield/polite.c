/* SPDX-License-Identifier: MIT */
/* Threads that compute, and yield out of politeness, for nobody: sched_yield after every THOUSANDS times a thousand
 * steps of arithmetic (1.1 us where it was measured). Prints such periods a second, of all threads, and the CPU time
 * that a second took.
 *
 *   polite THREADS THOUSANDS SECONDS */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MOST 64

static volatile unsigned sink[MOST * 16];
static unsigned long periods[MOST * 8], thousands;
static double seconds;

static double now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Work, not time: what another process used of this CPU does not count. */
static void *work(void *number)
{
	unsigned long n = (unsigned long)number, steps = thousands * 1000;
	double end = now(CLOCK_MONOTONIC) + seconds;
	unsigned x = 1;

	for (; now(CLOCK_MONOTONIC) < end; periods[n * 8]++) {
		for (unsigned long i = 0; i < steps; i++)
			x = x * 1664525u + 1013904223u;
		sink[n * 16] = x;
		sched_yield();
	}
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned long threads = argc > 3 ? strtoul(argv[1], NULL, 10) : 0, done = 0;
	pthread_t thread[MOST];
	double begin, took;

	if (threads < 1 || threads > MOST) {
		fprintf(stderr, "usage: %s THREADS THOUSANDS SECONDS\n", argv[0]);
		return 2;
	}
	thousands = strtoul(argv[2], NULL, 10);
	seconds = atof(argv[3]);
	begin = now(CLOCK_MONOTONIC);
	for (unsigned long i = 0; i < threads; i++) {
		if (pthread_create(&thread[i], NULL, work, (void *)i) != 0)
			return 1;
	}
	for (unsigned long i = 0; i < threads; i++) {
		pthread_join(thread[i], NULL);
		done += periods[i * 8];
	}
	took = now(CLOCK_MONOTONIC) - begin;
	printf("%.1f,%.2f\n", (double)done / took, now(CLOCK_PROCESS_CPUTIME_ID) / took);
	return 0;
}
