/* SPDX-License-Identifier: MIT */
/* A spinlock of processes that share memory, as PostgreSQL has it. Each process takes the lock, works, releases it, and
 * works on by itself. Prints sections a second, the 99.9th percentile of the waits
 * in us, the share of the slowest process, and the CPU time that a second took.
 *
 *   fg-loop-spinlock WAIT [PROCESSES [SECTION_US [SECONDS [threads]]]]
 *
 * WAIT, what a process does that finds the lock taken:
 *   spin     a spin hint, and looks again
 *   delay    100 spin hints, then it sleeps 1 ms, and longer each time, up to 1 s: as s_lock does
 *   advice   fg_wait_once about the owner
 *   shared   the lock is a FG_MUTEX_SHARED instead
 *
 * With `threads` they are threads of one process instead: the simulator has no fork. */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "flexguard/advice.h"
#include "flexguard/mutex_shared.h"
#include "runtime/arch/arch.h"
#include "runtime/clock.h"
#include "runtime/futex.h"

#define MOST_PROCESSES 256
#define BUCKETS 64
#define SPINS_PER_DELAY 100u
#define LONGEST_DELAY_NS 1000000000u

enum wait { SPIN, DELAY, ADVICE, SHARED, WAITS };
static const char *const names[WAITS] = {"spin", "delay", "advice", "shared"};

struct counts {
	uint64_t sections __attribute__((aligned(64)));
	uint64_t waits[BUCKETS]; /* by their binary logarithm, in ns */
};

static struct shared {
	uint64_t owner __attribute__((aligned(64)));
	struct fg_mutex_shared mutex __attribute__((aligned(64)));
	uint64_t inside __attribute__((aligned(64))); /* protected by the lock */
	uint32_t begin __attribute__((aligned(64))), end;
	struct counts of[MOST_PROCESSES];
} * shared;

static enum wait wait_by;
static bool as_threads;
static pthread_t thread[MOST_PROCESSES];
static uint32_t processes = 2;
static double section_us = 1, seconds = 1, cycles_per_us;

static void compute(uint64_t cycles)
{
	uint64_t spent = 0, before = fg_cycles(), now;

	for (; spent < cycles; before = now) {
		now = fg_cycles();
		spent += now - before < 10000 ? now - before : 0;
	}
}

/* The wait is over when the word is 0. */
static void wait_for_owner(uint32_t *delay_ns)
{
	struct fg_wait w = {0, 0, 0};

	while ((w.whom = fg_load_relaxed(&shared->owner)) != 0) {
		if (wait_by == ADVICE) {
			(void)fg_wait_once(&w);
			continue;
		}
		fg_pause();
		if (wait_by == DELAY && ++w.looks % SPINS_PER_DELAY == 0) {
			fgi_nap(*delay_ns);
			*delay_ns = *delay_ns * 2 < LONGEST_DELAY_NS ? *delay_ns * 2 : LONGEST_DELAY_NS;
		}
	}
}

static void take(fg_handle me)
{
	uint32_t delay_ns = 1000000;

	if (wait_by == SHARED) {
		fg_mutex_shared_lock(&shared->mutex);
		return;
	}
	for (;;) {
		fg_section_begin();
		if (fg_load_relaxed(&shared->owner) == 0 && fg_cas_acquire(&shared->owner, 0, me) == 0)
			return;
		fg_section_end();
		wait_for_owner(&delay_ns);
	}
}

static void release(void)
{
	if (wait_by == SHARED) {
		(void)fg_mutex_shared_unlock(&shared->mutex);
		return;
	}
	fg_store_release(&shared->owner, 0); /* pairs with the acquire in take */
	fg_section_end();
}

static void work(struct counts *counts)
{
	const uint64_t section = (uint64_t)(section_us * cycles_per_us), beside = 5 * section;
	fg_handle me = fg_thread_handle();

	while (!fg_load_acquire(&shared->begin))
		fgi_nap(100000);
	while (!fg_load_relaxed(&shared->end)) {
		uint64_t asked = fgi_now_ns(CLOCK_MONOTONIC), ns;

		take(me);
		ns = fgi_now_ns(CLOCK_MONOTONIC) - asked;
		shared->inside++;
		compute(section);
		release();
		counts->sections++;
		counts->waits[63 - __builtin_clzll(ns | 1)]++;
		compute(beside);
	}
}

static void measure_clock(void)
{
	uint64_t begin = fgi_now_ns(CLOCK_MONOTONIC), cycles = fg_cycles(), now;

	do
		now = fgi_now_ns(CLOCK_MONOTONIC);
	while (now - begin < 5000000);
	cycles_per_us = (double)(fg_cycles() - cycles) * 1e3 / (double)(now - begin);
}

/* Returns the upper end of the bucket that the quantile is in. */
static double wait_us(double quantile)
{
	uint64_t all[BUCKETS] = {0}, total = 0, seen = 0;

	for (uint32_t p = 0; p < processes; p++)
		for (int i = 0; i < BUCKETS; i++)
			all[i] += shared->of[p].waits[i];
	for (int i = 0; i < BUCKETS; i++)
		total += all[i];
	for (int i = 0; i < BUCKETS - 1; i++) {
		seen += all[i];
		if ((double)seen >= quantile * (double)total)
			return (double)(2ull << i) / 1e3;
	}
	return 0;
}

/* Returns 0 if the lock has excluded. */
static int report(double took)
{
	uint64_t sections = 0, least = UINT64_MAX;
	struct rusage u;

	getrusage(as_threads ? RUSAGE_SELF : RUSAGE_CHILDREN, &u);
	for (uint32_t p = 0; p < processes; p++) {
		sections += shared->of[p].sections;
		if (shared->of[p].sections < least)
			least = shared->of[p].sections;
	}
	printf("%s,%u,%g,%.0f,%.1f,%.2f,%.2f\n", names[wait_by], processes, section_us, (double)sections / took,
	       wait_us(0.999), (double)least * processes / (double)sections,
	       ((double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
		1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec)) /
		       took);
	return sections != shared->inside;
}

static bool read_arguments(int argc, char **argv)
{
	while (argc > 1 && wait_by < WAITS && strcmp(argv[1], names[wait_by]) != 0)
		wait_by++;
	if (argc > 2)
		processes = (uint32_t)atoi(argv[2]);
	if (argc > 3)
		section_us = atof(argv[3]);
	if (argc > 4)
		seconds = atof(argv[4]);
	as_threads = argc > 5 && strcmp(argv[5], "threads") == 0;
	return argc > 1 && argc < (as_threads ? 7 : 6) && wait_by < WAITS && processes > 0 &&
	       processes <= MOST_PROCESSES && section_us >= 0 && seconds > 0;
}

static void *work_as_thread(void *counts)
{
	work(counts);
	return NULL;
}

static bool start(uint32_t p)
{
	pid_t child;

	if (as_threads)
		return pthread_create(&thread[p], NULL, work_as_thread, &shared->of[p]) == 0;
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		work(&shared->of[p]);
		_exit(0);
	}
	return child > 0;
}

static void wait_for_all(void)
{
	if (as_threads) {
		for (uint32_t p = 0; p < processes; p++)
			pthread_join(thread[p], NULL);
		return;
	}
	while (wait(NULL) > 0)
		;
}

int main(int argc, char **argv)
{
	uint64_t begin;

	if (!read_arguments(argc, argv)) {
		fprintf(stderr, "usage: %s spin|delay|advice|shared [PROCESSES [SECTION_US [SECONDS [threads]]]]\n",
			argv[0]);
		return 2;
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	measure_clock();
	for (uint32_t p = 0; p < processes; p++)
		if (!start(p))
			return 1;
	begin = fgi_now_ns(CLOCK_MONOTONIC);
	fg_store_release(&shared->begin, 1); /* pairs with the acquire in work */
	fgi_nap((uint32_t)(seconds < 4 ? seconds * 1e9 : 4e9));
	fg_store_relaxed(&shared->end, 1);
	wait_for_all();
	return report((double)(fgi_now_ns(CLOCK_MONOTONIC) - begin) / 1e9);
}
