/* SPDX-License-Identifier: MIT */
/* Products of two matrices of 128 by 128, again and again, by the OpenBLAS that is given, whose threads wait by
 * sched_yield. Prints products a second, and the CPU time that a second took. OPENBLAS_NUM_THREADS says how many work.
 *
 *   products LIBRARY SECONDS */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SIDE 128
#define ROW_MAJOR 101
#define AS_IS 111

typedef void multiply(int layout, int left_as, int right_as, int rows, int columns, int inner, double factor,
		      const double *left, int left_step, const double *right, int right_step, double factor_of_old,
		      double *product, int product_step);

static double now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	static double a[SIDE * SIDE], b[SIDE * SIDE], c[SIDE * SIDE];
	void *library = argc > 2 ? dlopen(argv[1], RTLD_NOW) : NULL, *found;
	multiply *dgemm;
	double begin, took, seconds;
	unsigned long done = 0;

	if (!library || !(found = dlsym(library, "cblas_dgemm"))) {
		fprintf(stderr, "usage: %s LIBRARY SECONDS (%s)\n", argv[0], argc > 2 ? dlerror() : "no library");
		return 2;
	}
	memcpy(&dgemm, &found, sizeof(found));
	seconds = atof(argv[2]);
	for (int i = 0; i < SIDE * SIDE; i++) {
		a[i] = i % 7;
		b[i] = i % 5;
	}
	begin = now(CLOCK_MONOTONIC);
	do {
		dgemm(ROW_MAJOR, AS_IS, AS_IS, SIDE, SIDE, SIDE, 1, a, SIDE, b, SIDE, 0, c, SIDE);
		done++;
		took = now(CLOCK_MONOTONIC) - begin;
	} while (took < seconds);
	printf("%.1f,%.2f\n", (double)done / took, now(CLOCK_PROCESS_CPUTIME_ID) / took);
	return 0;
}
