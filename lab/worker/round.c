/* SPDX-License-Identifier: MIT */
/* One round of any workload: parse, prepare, run the threads through warm-up and measurement, report.
 *
 * The round ends by itself: the main thread changes run->phase and every thread looks at it before each operation, so
 * it does at most one more. Where a lock has collapsed that one may take a scheduler time slice per thread ahead in
 * the queue; where a lock has lost a wake-up it never comes, and after DRAIN_SECONDS the process says so and ends. */
#include "worker/round.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/monitor.h"
#include "runtime/thread.h"
#include "worker/json.h"
#include "worker/random.h"
#include "worker/slice.h"

#define DRAIN_SECONDS 60
#define IDLE_SECONDS 5
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
		.preempted = fgi_preemptions(),
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
	else if (round->slice_us)
		w->slice_error = fgb_set_slice(round->slice_us);
	sem_post(&w->round->started);
	if (round->ramps) {
		fgb_ramp_work(w);
		return NULL;
	}
	for (uint32_t phase = FGB_WARMUP; phase < FGB_STOP; phase++) {
		uint64_t spins = fg_thread.spins, parks = fg_thread.parks;

		round->workload->loop(&round->run, phase, &w->state);
		w->state.counts[phase].spins = fg_thread.spins - spins;
		w->state.counts[phase].parks = fg_thread.parks - parks;
	}
	return NULL;
}

void fgb_sleep_until(uint64_t ns)
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
		if (round->workers[i].slice_error) {
			fprintf(stderr, "fg-bench: cannot set a time slice of %lu us: %s (Linux 6.12 can)\n",
				round->slice_us, strerror(round->workers[i].slice_error));
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
		error = fgb_intervals_init(&round->intervals[0], 1, (uint32_t)round->threads);
	if (!error)
		error = fgb_intervals_init(&round->intervals[1], 10, (uint32_t)round->threads);
	free(tids);
	return error;
}

static void close_samplers(struct fgb_round *round)
{
	fgb_trace_free(&round->trace);
	fgb_intervals_free(&round->intervals[0]);
	fgb_intervals_free(&round->intervals[1]);
}

static uint64_t ops_so_far(const void *argument, uint32_t i)
{
	const struct fgb_round *round = argument;

	return fg_load_relaxed(&round->workers[i].state.counts[FGB_MEASURE].ops);
}

static uint32_t asked_to_end;

static void ask_to_end(int signo)
{
	(void)signo;
	fg_store_relaxed(&asked_to_end, 1);
}

/* A round without an operation says nothing about the lock: one may take longer than the round, or no thread had a CPU.
 * It goes on until one is done, but no longer than IDLE_SECONDS: a broken lock may let nobody in. */
static void await_operation(const struct fgb_round *round)
{
	uint64_t now, limit = fgb_ns() + IDLE_SECONDS * 1000000000ull, ops = 0;

	for (;;) {
		for (uint32_t i = 0; i < round->threads; i++)
			ops += ops_so_far(round, i);
		now = fgb_ns();
		if (ops || now >= limit)
			return;
		fgb_sleep_until(now + 1000000);
	}
}

/* The measured interval; the main thread sleeps, and wakes up once a second. SIGUSR1 ends the interval then: so a test
 * can measure for as long as what it does meanwhile takes. */
static void measure(struct fgb_round *round)
{
	for (uint64_t second = 1; (double)second <= round->seconds; second++) {
		fgb_sleep_until(round->begin.at.ns + second * 1000000000u);
		if (fg_load_relaxed(&asked_to_end))
			return;
		fgb_intervals_second(&round->intervals[0], second, ops_so_far, round);
		fgb_intervals_second(&round->intervals[1], second, ops_so_far, round);
	}
	fgb_sleep_until(round->begin.at.ns + (uint64_t)(round->seconds * 1e9));
	await_operation(round);
}

static int run_threads(struct fgb_round *round)
{
	uint64_t started;
	int status;

	signal(SIGUSR1, ask_to_end);
	if (round->ramps)
		fgb_ramp_begin(round);
	status = start_threads(round, &started);

	if (!status)
		status = open_samplers(round);
	if (!status) {
		fgb_sleep_until(fgb_ns() + (uint64_t)(round->warmup * 1e9));
		round->begin = mark();
		status = fgb_trace_start(&round->trace);
	}
	if (!status && round->ramps) {
		fgb_ramp_measure(round);
	} else if (!status) {
		fg_store_relaxed(&round->run.phase, FGB_MEASURE);
		measure(round);
	}
	fg_store_relaxed(&round->run.phase, FGB_STOP);
	if (round->ramps)
		fgb_ramp_stop(round);
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

/* What the command line says; `run` gets it in other units. */
static struct {
	uint64_t sample, hold_sleep_us, hold_sleep_every;
} given;

static struct fgb_round round;

static const struct fgb_option every_round[] = {
	{"--lock", "NAME", "see fg-bench --list", FGB_LOCK, 0, 0, {.lock = &round.lock}},
	FGB_OPTION_NUMBER("--threads", "threads that use the lock", 1, 4096, &round.threads),
	FGB_OPTION_SECONDS("--seconds", "the measurement lasts", 0.001, 3600, &round.seconds),
	FGB_OPTION_SECONDS("--warmup", "seconds before it begins", 0, 600, &round.warmup),
	FGB_OPTION_NUMBER("--hogs", "processes that burn CPU beside the round", 0, 4096, &round.hog_count),
	{"--nice",
	 "A,B,...",
	 "nice levels, dealt to the threads in turn",
	 FGB_LEVELS,
	 -20,
	 19,
	 {.levels = &round.nice}},
	FGB_OPTION_NUMBER("--trace-us", "sample how many threads are runnable, every N us", FGB_TRACE_US_MIN, 1e6,
			  &round.trace_us),
	FGB_OPTION_FLAG("--help", "this, as the only argument", NULL),
	FGB_OPTIONS_END,
};

/* Its default is the workload's. */
static const struct fgb_option sampling[] = {
	FGB_OPTION_NUMBER("--sample", "time every Nth operation", 1, 1e9, &given.sample),
	FGB_OPTIONS_END,
};

/* Of a workload without a loop of its own. */
static const struct fgb_option every_operation[] = {
	FGB_OPTION_NUMBER("--cycles-between", "cycles between two sections", 0, 1e12, &round.run.cycles_between),
	FGB_OPTION_NUMBER("--hold-sleep-us", "us that the holder sleeps in its section", 0, 1e6, &given.hold_sleep_us),
	FGB_OPTION_NUMBER("--hold-sleep-every", "in every how many of a thread's sections", 1, 1e9,
			  &given.hold_sleep_every),
	FGB_OPTION_NUMBER("--slice-us", "time slice of each thread, 100 or more us (0: the scheduler's)", 0, 100000,
			  &round.slice_us),
	FGB_OPTION_FLAG("--ramp", "threads go from one to --threads and back within the round", &round.ramps),
	FGB_OPTIONS_END,
};

static const struct fgb_option no_options[] = {FGB_OPTIONS_END};

static const struct fgb_option *options_of_operations(const struct fgb_workload *workload)
{
	return workload->own_loop ? no_options : every_operation;
}

/* The values that hold unless the command line says otherwise. */
static void set_defaults(const struct fgb_workload *workload)
{
	round.workload = workload;
	round.warmup = 0.2;
	round.run.cycles_between = workload->cycles_between;
	given.sample = workload->sample;
	given.hold_sleep_us = 0;
	given.hold_sleep_every = 1;
}

static void help(const struct fgb_workload *workload)
{
	printf("fg-bench %s --lock NAME --threads N --seconds S: one round of one lock; prints one JSON object\n"
	       "%s\n\nof the workload\n",
	       workload->name, workload->brief);
	fgb_print_options(workload->options);
	fgb_print_options(options_of_operations(workload));
	puts("of every round");
	fgb_print_options(sampling);
	fgb_print_options(every_round);
}

static void print_workloads(const struct fgb_workload *const *workloads, bool by_pthread)
{
	for (; *workloads; workloads++) {
		const struct fgb_workload *w = *workloads;

		set_defaults(w);
		fgb_json_object(NULL);
		fgb_json_text("name", w->name);
		fgb_json_text("brief", w->brief);
		fgb_json_flag("by_pthread", by_pthread);
		fgb_json_array("options");
		fgb_print_options_json(w->options);
		fgb_print_options_json(options_of_operations(w));
		fgb_print_options_json(sampling);
		fgb_json_end();
		fgb_json_end();
	}
}

void fgb_print_catalogue(const struct fgb_carried *carried)
{
	fgb_json_object(NULL);
	fgb_json_count("version", FGB_CATALOGUE_VERSION);
	fgb_json_array("round");
	set_defaults(*carried->workloads);
	fgb_print_options_json(every_round);
	fgb_json_end();
	fgb_json_array("workloads");
	print_workloads(carried->workloads, false);
	print_workloads(carried->pthread_workloads, true);
	fgb_json_object(NULL);
	fgb_json_text("name", "uncontended");
	fgb_json_text("brief", "one thread takes and releases a lock that no other thread wants");
	fgb_json_flag("by_pthread", false);
	fgb_json_flag("pairs", true);
	fgb_json_array("options");
	fgb_print_options_json(fgb_uncontended_options);
	fgb_json_end();
	fgb_json_end();
	fgb_json_end();
	fgb_json_end();
}

static int parse(int argc, char **argv)
{
	const struct fgb_option *const tables[] = {every_round, sampling, options_of_operations(round.workload),
						   round.workload->options, NULL};
	int error = fgb_parse(argc, argv, tables);

	if (error)
		return error;
	if (!round.lock || !round.threads || round.seconds == 0) {
		fprintf(stderr,
			"fg-bench: %s needs --lock NAME, --threads N and --seconds S (see fg-bench %s --help)\n",
			round.workload->name, round.workload->name);
		return FGB_USAGE;
	}
	round.run.sample = (uint32_t)given.sample;
	round.run.threads = round.threads;
	if (round.ramps)
		fgb_ramp_plan(&round.ramp, round.threads);
	round.run.hold_sleep_ns = (uint32_t)given.hold_sleep_us * 1000;
	round.run.hold_sleep_every = (uint32_t)given.hold_sleep_every;
	return 0;
}

int fgb_round_main(const struct fgb_workload *workload, int argc, char **argv)
{
	int status;

	set_defaults(workload);
	if (argc == 2 && strcmp(argv[1], "--help") == 0) { /* before anything is parsed: it shows the defaults */
		help(workload);
		return 0;
	}
	status = parse(argc, argv);
	if (status)
		return status;
	return fgb_available(round.lock) ? run_round(&round) : FGB_UNAVAILABLE;
}
