/* SPDX-License-Identifier: MIT */
/* What graph.c and generate.c share: pools of threads, the time that each step took, and what is printed of it. */
#ifndef FLEXGUARD_GGML_STEPS_H
#define FLEXGUARD_GGML_STEPS_H

#include <ggml-cpu.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#define MOST_STEPS 1000000u

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static struct ggml_threadpool *new_pool(int threads)
{
	struct ggml_threadpool_params p = ggml_threadpool_params_default(threads);
	struct ggml_threadpool *pool = ggml_threadpool_new(&p);

	if (!pool)
		exit(1);
	return pool;
}

static struct steps {
	double cpu;
	uint64_t begin, end, last, took[MOST_STEPS];
	uint32_t n;
} steps;

static void begin_steps(double seconds)
{
	steps.cpu = cpu_seconds();
	steps.begin = steps.last = now_ns();
	steps.end = steps.begin + (uint64_t)(seconds * 1e9);
}

/* A step has ended. Returns whether there is time for another. */
static int go_on(void)
{
	const uint64_t now = now_ns();

	steps.took[steps.n++] = now - steps.last;
	steps.last = now;
	return now < steps.end && steps.n < MOST_STEPS;
}

static int by_size(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void print_steps(const char *kind, int threads)
{
	const double seconds = (double)(steps.last - steps.begin) / 1e9;
	const uint32_t n = steps.n;

	steps.cpu = cpu_seconds() - steps.cpu;
	qsort(steps.took, n, sizeof(*steps.took), by_size);
	printf("%s,%d,%.1f,%.1f,%.1f,%.2f\n", kind, threads, n / seconds, (double)steps.took[n / 2] / 1e3,
	       (double)steps.took[n - 1 - n / 100] / 1e3, steps.cpu / seconds);
}

#endif
