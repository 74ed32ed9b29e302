/* SPDX-License-Identifier: MIT */
/* An OpenMP program as many are: parallel loops of a few microseconds a thread, each of which ends with a barrier, and
 * loops with a dynamic schedule, whose iterations differ. Prints regions a second, and the CPU time that a second took.
 *
 *   team static|dynamic|multiply [WORK_US [SECONDS]]
 *
 * multiply: OpenBLAS's product of two matrices of 192 by 192, again and again, from the library that is installed
 * (libopenblas0-openmp); WORK_US is not used. OMP_NUM_THREADS says how many threads work. */
#include <dlfcn.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define SIDE 192
#define BLAS "/usr/lib/x86_64-linux-gnu/openblas-openmp/libopenblas.so.0"

static double cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static volatile unsigned sink;

/* Work, not time: what another process used of this CPU does not count. */
static void compute(unsigned long steps)
{
	unsigned x = 1;

	for (unsigned long i = 0; i < steps; i++)
		x = x * 1664525u + 1013904223u;
	sink = x;
}

/* The least of some trials: another process may take part of one. */
static double steps_per_us(void)
{
	double begin, took, least = 1e9;

	for (int i = 0; i < 20; i++) {
		begin = omp_get_wtime();
		compute(200000);
		took = omp_get_wtime() - begin;
		least = took < least ? took : least;
	}
	return 200000 / (least * 1e6);
}

static unsigned long regions_by_schedule(int dynamic, unsigned long steps, double seconds)
{
	int threads = omp_get_max_threads();
	double end = omp_get_wtime() + seconds;
	unsigned long regions = 0;

	for (; omp_get_wtime() < end; regions++) {
		if (dynamic) {
#pragma omp parallel for schedule(dynamic, 1)
			for (int i = 0; i < threads * 8; i++)
				compute(steps / 8 * (unsigned long)(1 + i % 3) / 2);
		} else {
#pragma omp parallel for schedule(static, 1)
			for (int i = 0; i < threads; i++)
				compute(steps);
		}
	}
	return regions;
}

static unsigned long products(double seconds)
{
	static double a[SIDE * SIDE], b[SIDE * SIDE], c[SIDE * SIDE];
	void *library = dlopen(BLAS, RTLD_NOW);
	void *found = library ? dlsym(library, "cblas_dgemm") : NULL;
	void (*dgemm)(int, int, int, int, int, int, double, const double *, int, const double *, int, double, double *,
		      int);
	double end = omp_get_wtime() + seconds;
	unsigned long done = 0;

	if (!found) {
		fprintf(stderr, "team: libopenblas0-openmp is not installed\n");
		exit(1);
	}
	memcpy(&dgemm, &found, sizeof(found));
	for (int i = 0; i < SIDE * SIDE; i++) {
		a[i] = i % 7;
		b[i] = i % 5;
	}
	for (; omp_get_wtime() < end; done++)
		dgemm(101, 111, 111, SIDE, SIDE, SIDE, 1, a, SIDE, b, SIDE, 0, c, SIDE);
	return done;
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "";
	double work_us = argc > 2 ? atof(argv[2]) : 20, seconds = argc > 3 ? atof(argv[3]) : 1, begin, took, cpu;
	unsigned long steps = (unsigned long)(work_us * steps_per_us()), regions;

	if (strcmp(kind, "static") != 0 && strcmp(kind, "dynamic") != 0 && strcmp(kind, "multiply") != 0) {
		fprintf(stderr, "usage: %s static|dynamic|multiply [WORK_US [SECONDS]]\n", argv[0]);
		return 2;
	}
	cpu = cpu_seconds();
	begin = omp_get_wtime();
	regions = kind[0] == 'm' ? products(seconds) : regions_by_schedule(kind[0] == 'd', steps, seconds);
	took = omp_get_wtime() - begin;
	printf("%s,%d,%g,%.1f,%.2f\n", kind, omp_get_max_threads(), work_us, (double)regions / took,
	       (cpu_seconds() - cpu) / took);
	return 0;
}
