/* SPDX-License-Identifier: MIT */
/* A spin barrier as a pool of workers has it (ggml's, libgomp's): threads compute for a while and meet, again and
 * again. Prints phases a second, the phases' 50th and 99th percentile, and the CPU time that a second took.
 *
 *   fg-loop-barrier WAIT [THREADS [WORK_US [SECONDS]]]
 *
 * WAIT, what a thread does that has arrived:
 *   spin      a spin hint, and looks again: ggml's
 *   yield     sched_yield, and looks again
 *   thousand  1,000 spin hints, then sched_yield: libgomp's count where threads outnumber CPUs
 *   park      1,000 spin hints, then a futex
 *   advice    fg_wait_once
 *   wake      as fg_wait_advice says; a sleep is a futex, which the last to arrive wakes */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "flexguard/advice.h"
#include "runtime/arch/arch.h"
#include "runtime/clock.h"
#include "runtime/futex.h"

#define SPINS 1000u
#define MOST_THREADS 256
#define MOST_PHASES 4000000u

enum wait { SPIN, YIELD, THOUSAND, PARK, ADVICE, WAKE, WAITS };
static const char *const names[WAITS] = {"spin", "yield", "thousand", "park", "advice", "wake"};

/* As ggml has it: each on a line of its own. */
static struct {
	uint32_t arrived __attribute__((aligned(64)));
	uint32_t passed __attribute__((aligned(64)));
	uint32_t asleep __attribute__((aligned(64))); /* that may sleep at `passed` */
} barrier;

static enum wait wait_by;
static uint32_t threads = 2;
static double work_us = 20, seconds = 1;
static uint32_t last_phase = UINT32_MAX;
static uint64_t *ends; /* when each phase ended */

static void sleep_at(uint32_t phase, uint64_t most_ns)
{
	struct timespec until = fgi_timespec(fgi_now_ns(CLOCK_MONOTONIC) + most_ns);

	fg_fetch_add_acq_rel(&barrier.asleep, 1);
	(void)fgi_futex_wait(&barrier.passed, phase, CLOCK_MONOTONIC, &until);
	fg_fetch_add_acq_rel(&barrier.asleep, -1u);
}

/* One look later. `w` counts the looks. */
static void wait_once(struct fg_wait *w, uint32_t phase)
{
	struct fg_advice a;

	if (wait_by == ADVICE) {
		(void)fg_wait_once(w);
		return;
	}
	w->looks++;
	if (wait_by == WAKE) {
		a = fg_wait_advice(w);
		if (a.action == FG_WAIT_SLEEP)
			sleep_at(phase, 10000000);
		else if (a.action == FG_WAIT_YIELD)
			sched_yield();
		else
			fg_pause();
	} else if (wait_by == SPIN || (wait_by != YIELD && w->looks < SPINS)) {
		fg_pause();
	} else if (wait_by == PARK) {
		sleep_at(phase, 10000000);
	} else {
		sched_yield();
	}
}

static void meet(void)
{
	uint32_t phase = fg_load_relaxed(&barrier.passed);
	struct fg_wait w = {0, threads - 1, 0};

	fg_section_end();
	if (fg_fetch_add_acq_rel(&barrier.arrived, 1) == threads - 1) {
		ends[phase] = fgi_now_ns(CLOCK_MONOTONIC);
		fg_store_relaxed(&barrier.arrived, 0);
		if (ends[phase] - ends[0] > (uint64_t)(seconds * 1e9) || phase == MOST_PHASES - 1)
			fg_store_relaxed(&last_phase, phase);
		fg_xchg_acq_rel(&barrier.passed, phase + 1);
		if (fg_load_seq_cst(&barrier.asleep))
			fgi_futex_wake(&barrier.passed, (int)threads);
	}
	while (fg_load_acquire(&barrier.passed) == phase)
		wait_once(&w, phase);
	fg_section_begin();
}

static double cycles_per_us;

static void compute(uint64_t cycles)
{
	uint64_t spent = 0, before = fg_cycles(), now;

	/* What another thread used of this CPU is no work of this one. */
	for (; spent < cycles; before = now) {
		now = fg_cycles();
		spent += now - before < 10000 ? now - before : 0;
	}
}

static void *work(void *unused)
{
	const uint64_t cycles = (uint64_t)(work_us * cycles_per_us);

	(void)fg_thread_handle(); /* so that others learn which CPU this thread waits for */
	fg_section_begin();
	while (fg_load_relaxed(&last_phase) >= fg_load_relaxed(&barrier.passed)) {
		compute(cycles);
		meet();
	}
	fg_section_end();
	return unused;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static double cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void report(double cpu)
{
	uint32_t n = last_phase;
	double took = (double)(ends[n] - ends[0]) / 1e9;
	uint64_t median, late;

	for (uint32_t i = 0; i < n; i++)
		ends[i] = ends[i + 1] - ends[i];
	qsort(ends, n, sizeof(*ends), by_size);
	median = ends[n / 2];
	late = ends[n - 1 - n / 100];
	printf("%s,%u,%g,%.1f,%.2f,%.2f,%.2f\n", names[wait_by], threads, work_us, n / took, (double)median / 1e3,
	       (double)late / 1e3, cpu / took);
}

static void measure_clock(void)
{
	uint64_t begin = fgi_now_ns(CLOCK_MONOTONIC), cycles = fg_cycles(), now;

	do
		now = fgi_now_ns(CLOCK_MONOTONIC);
	while (now - begin < 5000000);
	cycles_per_us = (double)(fg_cycles() - cycles) * 1e3 / (double)(now - begin);
}

static bool read_arguments(int argc, char **argv)
{
	while (argc > 1 && wait_by < WAITS && strcmp(argv[1], names[wait_by]) != 0)
		wait_by++;
	if (argc > 2)
		threads = (uint32_t)atoi(argv[2]);
	if (argc > 3)
		work_us = atof(argv[3]);
	if (argc > 4)
		seconds = atof(argv[4]);
	return argc > 1 && argc < 6 && wait_by < WAITS && threads > 0 && threads <= MOST_THREADS && work_us >= 0 &&
	       seconds > 0;
}

int main(int argc, char **argv)
{
	pthread_t thread[MOST_THREADS];
	double cpu;

	if (!read_arguments(argc, argv)) {
		fprintf(stderr, "usage: %s spin|yield|thousand|park|advice|wake [THREADS [WORK_US [SECONDS]]]\n",
			argv[0]);
		return 2;
	}
	ends = calloc(MOST_PHASES, sizeof(*ends));
	if (!ends)
		return 1;
	measure_clock();
	cpu = cpu_seconds();
	for (uint32_t i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, work, NULL))
			return 1;
	for (uint32_t i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	report(cpu_seconds() - cpu);
	return 0;
}
