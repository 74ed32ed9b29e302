/* SPDX-License-Identifier: MIT */
/* One round of any workload: parse, prepare, run the threads through warm-up and measurement, report.
 *
 * The round ends by itself: the main thread changes run->phase and every thread looks at it before each operation, so
 * it does at most one more. Where a lock has collapsed that one may take a scheduler time slice per thread ahead in
 * the queue; where a lock has lost a wake-up it never comes, and after DRAIN_SECONDS the process says so and ends. */
#include "bench/worker/round.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "bench/worker/random.h"
#include "runtime/monitor.h"
#include "runtime/thread.h"

#define DRAIN_SECONDS 60
#define CALIBRATION_NS 10000000

void *fgb_allocate(uint64_t count, uint64_t size)
{
	uint64_t bytes = (count * size + FGB_ALONE - 1) / FGB_ALONE * FGB_ALONE;
	uint64_t half = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
	void *memory = count <= half / size ? aligned_alloc(FGB_ALONE, bytes) : NULL;

	if (memory)
		memset(memory, 0, bytes);
	else
		fprintf(stderr, "fg-bench: not enough memory: %.0f MB are needed\n",
			(double)count * (double)size / 1e6);
	return memory;
}

double fgb_cycles_per_us(void)
{
	static double cycles_per_us;
	struct fgb_instant from, to;

	if (cycles_per_us > 0)
		return cycles_per_us;
	from = fgb_now();
	do
		to = fgb_now();
	while (to.ns - from.ns < CALIBRATION_NS);
	cycles_per_us = 1000 / fgb_ns_per_cycle(from, to);
	return cycles_per_us;
}

/* Resident memory of the process. 0 where /proc does not say. */
static uint64_t rss_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long pages = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%*u %lu", &pages) != 1)
		pages = 0;
	fclose(file);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

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
	m.voluntary_switches = (uint64_t)use.ru_nvcsw;
	m.involuntary_switches = (uint64_t)use.ru_nivcsw;
	return m;
}

static void *work(void *argument)
{
	struct fgb_worker *w = argument;
	const struct fgb_round *round = w->round;

	w->tid = gettid();
	if (round->nice.count && setpriority(PRIO_PROCESS, (id_t)w->tid, w->nice))
		w->error = errno;
	sem_post(&w->round->started);
	for (uint32_t phase = FGB_WARMUP; phase < FGB_STOP; phase++) {
		uint64_t spins = fg_thread.spins, parks = fg_thread.parks;

		round->workload->loop(&round->run, phase, &w->state);
		w->state.counts[phase].spins = fg_thread.spins - spins;
		w->state.counts[phase].parks = fg_thread.parks - parks;
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

/* Creates the threads and waits until each has begun. */
static int start_threads(struct fgb_round *round, uint64_t *started)
{
	for (*started = 0; *started < round->threads; ++*started) {
		struct fgb_worker *w = &round->workers[*started];
		int error;

		w->round = round;
		w->state.random = fgb_mix(*started + 1);
		w->state.index = *started;
		w->nice = round->nice.count ? round->nice.level[*started % round->nice.count] : 0;
		error = pthread_create(&w->thread, NULL, work, w);
		if (error) {
			fprintf(stderr, "fg-bench: cannot create thread %lu of %lu: %s\n", *started + 1, round->threads,
				strerror(error));
			return FGB_FAILED;
		}
	}
	for (uint64_t i = 0; i < round->threads; i++)
		while (sem_wait(&round->started))
			;
	for (uint64_t i = 0; i < round->threads; i++) {
		if (round->workers[i].error) {
			fprintf(stderr, "fg-bench: cannot set nice level %d: %s\n", round->workers[i].nice,
				strerror(round->workers[i].error));
			return FGB_FAILED;
		}
	}
	return 0;
}

static int open_samplers(struct fgb_round *round)
{
	pid_t *tids = calloc(round->threads, sizeof(*tids));
	int error = tids ? 0 : FGB_FAILED;

	if (!tids)
		fputs("fg-bench: not enough memory\n", stderr);
	for (uint64_t i = 0; tids && i < round->threads; i++)
		tids[i] = round->workers[i].tid;
	if (!error)
		error = fgb_trace_open(&round->trace, round->trace_us, tids, (uint32_t)round->threads, round->seconds);
	if (!error)
		error = fgb_windows_init(&round->windows[0], 1, (uint32_t)round->threads);
	if (!error)
		error = fgb_windows_init(&round->windows[1], 10, (uint32_t)round->threads);
	free(tids);
	return error;
}

static void close_samplers(struct fgb_round *round)
{
	fgb_trace_free(&round->trace);
	fgb_windows_free(&round->windows[0]);
	fgb_windows_free(&round->windows[1]);
}

static uint64_t ops_so_far(const void *argument, uint32_t i)
{
	const struct fgb_round *round = argument;

	return fg_load_relaxed(&round->workers[i].state.counts[FGB_MEASURE].ops);
}

/* The measured interval; the main thread sleeps, and wakes up once a second. */
static void measure(struct fgb_round *round)
{
	for (uint64_t second = 1; (double)second <= round->seconds; second++) {
		sleep_until(round->begin.at.ns + second * 1000000000u);
		fgb_windows_second(&round->windows[0], second, ops_so_far, round);
		fgb_windows_second(&round->windows[1], second, ops_so_far, round);
	}
	sleep_until(round->begin.at.ns + (uint64_t)(round->seconds * 1e9));
}

static int run_threads(struct fgb_round *round)
{
	uint64_t started;
	int status = start_threads(round, &started);

	if (!status)
		status = open_samplers(round);
	if (!status) {
		sleep_until(fgb_ns() + (uint64_t)(round->warmup * 1e9));
		round->begin = mark();
		status = fgb_trace_start(&round->trace);
	}
	if (!status) {
		fg_store_relaxed(&round->run.phase, FGB_MEASURE);
		measure(round);
	}
	fg_store_relaxed(&round->run.phase, FGB_STOP);
	round->end = mark();
	if (round->workload->stop)
		round->workload->stop();
	round->rss_after = rss_bytes();
	fgb_trace_stop(&round->trace);
	join_all(round, started);
	return status;
}

static int run_round(struct fgb_round *round)
{
	int status;

	round->workers = fgb_allocate(round->threads, sizeof(*round->workers));
	status = round->workers ? round->workload->prepare(&round->run) : FGB_FAILED;
	if (!status)
		status = fgb_hogs_start(&round->hogs, round->hog_count);
	if (status)
		return status;
	sem_init(&round->started, 0, 0);
	round->rss_before = rss_bytes();
	status = run_threads(round);
	fgb_hogs_stop(&round->hogs);
	if (!status)
		status = fgb_report(round);
	close_samplers(round);
	free(round->workers);
	return status;
}

static void help(const struct fgb_workload *workload, const struct fgb_option *options)
{
	printf("fg-bench %s --lock NAME --threads N --seconds S: one round of one lock; prints one JSON object\n"
	       "%s\n\nof the workload\n",
	       workload->name, workload->brief);
	fgb_print_options(workload->options);
	puts("of every round");
	fgb_print_options(options);
}

static int parse(int argc, char **argv, struct fgb_round *round, bool *helped)
{
	uint64_t sample = round->workload->sample, sleep_us = 0, sleep_every = 1;
	const struct fgb_option common[] = {
		{"--lock", "NAME", "see fg-bench --list", FGB_LOCK, 0, 0, {.lock = &round->lock}},
		FGB_OPTION_NUMBER("--threads", "threads that use the lock", 1, 4096, &round->threads),
		FGB_OPTION_SECONDS("--seconds", "the measurement lasts", 0.001, 3600, &round->seconds),
		FGB_OPTION_SECONDS("--warmup", "before it begins (0.2)", 0, 600, &round->warmup),
		FGB_OPTION_NUMBER("--cycles-between", "cycles between two sections (shm: 100, else 0)", 0, 1e12,
				  &round->run.cycles_between),
		FGB_OPTION_NUMBER("--hold-sleep-us", "the holder sleeps in its section; 0: never (0)", 0, 1e6,
				  &sleep_us),
		FGB_OPTION_NUMBER("--hold-sleep-every", "in every how many of a thread's sections (1)", 1, 1e9,
				  &sleep_every),
		FGB_OPTION_NUMBER("--hogs", "processes that burn CPU beside the round (0)", 0, 4096, &round->hog_count),
		{"--nice", "A,B,...", "nice levels, dealt in turn", FGB_LEVELS, -20, 19, {.levels = &round->nice}},
		FGB_OPTION_NUMBER("--trace-us", "sample how many threads are runnable, every N us; 0: not (0)", 0, 1e6,
				  &round->trace_us),
		FGB_OPTION_NUMBER("--sample", "time every Nth operation (shm, hashtable: 16, else 1)", 1, 1e9, &sample),
		FGB_OPTION_FLAG("--json", "accepted: it is the only output there is", NULL),
		FGB_OPTION_FLAG("--help", "this", helped),
		FGB_OPTIONS_END,
	};
	int error = fgb_parse(argc, argv, (const struct fgb_option *[]){common, round->workload->options, NULL});

	if (error)
		return error;
	if (*helped) {
		help(round->workload, common);
		return 0;
	}
	if (!round->lock || !round->threads || round->seconds == 0) {
		fprintf(stderr,
			"fg-bench: %s needs --lock NAME, --threads N and --seconds S (see fg-bench %s --help)\n",
			round->workload->name, round->workload->name);
		return FGB_USAGE;
	}
	if (round->workload->own_loop && (round->run.cycles_between || sleep_us)) {
		fprintf(stderr, "fg-bench: %s: takes neither --cycles-between nor --hold-sleep-us\n",
			round->workload->name);
		return FGB_USAGE;
	}
	if (round->trace_us && round->trace_us < FGB_TRACE_US_MIN) {
		fprintf(stderr, "fg-bench: --trace-us: at least %d\n", FGB_TRACE_US_MIN);
		return FGB_USAGE;
	}
	round->run.sample = (uint32_t)sample;
	round->run.threads = round->threads;
	round->run.hold_sleep_ns = (uint32_t)sleep_us * 1000;
	round->run.hold_sleep_every = (uint32_t)sleep_every;
	return 0;
}

int fgb_round_main(const struct fgb_workload *workload, int argc, char **argv)
{
	static struct fgb_round round = {.warmup = 0.2};
	bool helped = false;
	int status;

	round.workload = workload;
	round.run.cycles_between = workload->cycles_between;
	status = parse(argc, argv, &round, &helped);
	if (status || helped)
		return status;
	return fgb_available(round.lock) ? run_round(&round) : FGB_UNAVAILABLE;
}
