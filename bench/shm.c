/* SPDX-License-Identifier: MIT */
/* The shared-memory-access microbenchmark (section 5.2): threads that lock, write to a few shared cache lines, unlock
 * and wait a little.
 *
 * The round ends by itself: the main thread changes run->phase and every worker looks at it before each operation, so
 * it does at most one more. Where a lock has collapsed that one may take a scheduler time slice per thread ahead in
 * the queue; where a lock has lost a wake-up it never comes, and after DRAIN_SECONDS the process says so and ends. */
#include "bench/shm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench/options.h"
#include "src/monitor.h"

#define DRAIN_SECONDS 60

static struct fgb_mark mark(void)
{
	const struct fg_shared *page = fg_load_relaxed(&fgi_monitor_page);
	struct rusage use;
	struct fgb_mark m = {
		.at = fgb_now(),
		.preempted_holders = fg_load_relaxed(&page->preempted_holders),
		.preempted_next_waiters = fg_load_relaxed(&page->preempted_next_waiters),
		.mode_transitions = fg_load_relaxed(&page->mode_transitions),
	};

	getrusage(RUSAGE_SELF, &use);
	m.cpu_seconds = (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
			(double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e-6;
	return m;
}

static void *work(void *argument)
{
	struct fgb_worker *w = argument;

	for (uint32_t phase = FGB_WARMUP; phase < FGB_STOP; phase++) {
		uint64_t spins = fg_thread.spins, parks = fg_thread.parks;

		w->lock->loops->shm(w->run, phase, &w->counts[phase]);
		w->counts[phase].spins = fg_thread.spins - spins;
		w->counts[phase].parks = fg_thread.parks - parks;
	}
	return NULL;
}

static void sleep_until(uint64_t ns)
{
	struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

/* Ends the process when a thread does not come back: its stack and ours cannot be taken down safely. */
static void join_all(const struct fgb_round *round, uint64_t started)
{
	struct timespec limit;

	clock_gettime(CLOCK_MONOTONIC, &limit);
	limit.tv_sec += DRAIN_SECONDS;
	for (uint64_t i = 0; i < started; i++) {
		int error = pthread_clockjoin_np(round->workers[i].thread, NULL, CLOCK_MONOTONIC, &limit);

		if (error) {
			fprintf(stderr,
				"fg-bench: lock %s: a thread still waits for it %d s after the end of the round: %s\n",
				round->lock->name, DRAIN_SECONDS, strerror(error));
			_exit(FGB_STUCK);
		}
	}
}

static int run_round(struct fgb_round *round)
{
	struct fgb_run *run = &round->run;
	uint64_t started = 0;
	int error = 0;

	while (started < round->threads && !error) {
		struct fgb_worker *w = &round->workers[started];

		w->lock = round->lock;
		w->run = run;
		error = pthread_create(&w->thread, NULL, work, w);
		started += !error;
	}
	if (error) {
		fg_store_relaxed(&run->phase, FGB_STOP);
		join_all(round, started);
		fprintf(stderr, "fg-bench: cannot create thread %lu of %lu: %s\n", started + 1, round->threads,
			strerror(error));
		return FGB_FAILED;
	}
	sleep_until(fgb_ns() + (uint64_t)(round->warmup * 1e9));
	round->begin = mark();
	fg_store_relaxed(&run->phase, FGB_MEASURE);
	sleep_until(round->begin.at.ns + (uint64_t)(round->seconds * 1e9));
	fg_store_relaxed(&run->phase, FGB_STOP);
	round->end = mark();
	join_all(round, started);
	return 0;
}

/* Zeroed, and a multiple of the alignment in size, as C11 wants it. */
static void *allocate(size_t count, size_t size)
{
	size_t bytes = (count * size + FGB_ALONE - 1) / FGB_ALONE * FGB_ALONE;
	void *memory = aligned_alloc(FGB_ALONE, bytes);

	if (memory)
		memset(memory, 0, bytes);
	else
		fputs("fg-bench: not enough memory\n", stderr);
	return memory;
}

static int parse(int argc, char **argv, struct fgb_round *round)
{
	uint64_t lines = 2, sample = 16;
	const struct fgb_option options[] = {
		{"--lock", FGB_LOCK, 0, 0, {.lock = &round->lock}},
		{"--threads", FGB_NUMBER, 1, 4096, {.number = &round->threads}},
		{"--seconds", FGB_SECONDS, 0.001, 3600, {.seconds = &round->seconds}},
		{"--warmup", FGB_SECONDS, 0, 600, {.seconds = &round->warmup}},
		{"--lines", FGB_NUMBER, 1, 65536, {.number = &lines}},
		{"--cycles-between", FGB_NUMBER, 0, 1e12, {.number = &round->run.cycles_between}},
		{"--section-cycles", FGB_NUMBER, 0, 1e12, {.number = &round->run.section_cycles}},
		{"--sample", FGB_NUMBER, 1, 1e9, {.number = &sample}},
		{"--json", FGB_FLAG, 0, 0, {.flag = NULL}},
		{0},
	};
	int error = fgb_parse(argc, argv, options);

	if (error)
		return error;
	if (!round->lock || !round->threads || round->seconds == 0) {
		fputs("fg-bench: shm needs --lock NAME, --threads N and --seconds S (see fg-bench --help)\n", stderr);
		return FGB_USAGE;
	}
	round->run.lines = (uint32_t)lines;
	round->run.sample = (uint32_t)sample;
	return 0;
}

int fgb_shm_main(int argc, char **argv)
{
	static struct fgb_round round = {.warmup = 0.2, .run = {.cycles_between = 100}};
	int status = parse(argc, argv, &round);

	if (status)
		return status;
	round.workers = allocate(round.threads, sizeof(*round.workers));
	round.run.data = allocate(round.run.lines, sizeof(*round.run.data));
	status = round.workers && round.run.data ? run_round(&round) : FGB_FAILED;
	if (!status)
		status = fgb_shm_report(&round);
	free(round.run.data);
	free(round.workers);
	return status;
}
