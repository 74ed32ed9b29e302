/* SPDX-License-Identifier: MIT */
/* One round: what worker/round.c measures and worker/report.c prints. */
#ifndef FGB_ROUND_H
#define FGB_ROUND_H

#include <pthread.h>
#include <semaphore.h>
#include <sys/types.h>

#include "runtime/monitor.h"
#include "worker/bench.h"
#include "worker/clock.h"
#include "worker/hogs.h"
#include "worker/intervals.h"
#include "worker/options.h"
#include "worker/ramp.h"
#include "worker/trace.h"

struct fgb_round;

struct fgb_worker { /* one thread; the main thread reads what it has written after joining it */
	struct fgb_thread state;
	struct fgb_round *round;
	pthread_t thread;
	pid_t tid; /* these four are written before `started` is posted */
	int nice;
	int error;          /* of setting `nice` */
	int slice_error;    /* of setting the time slice */
	struct fgb_run run; /* of a ramp: this thread's own */
	sem_t resume;       /* of a ramp: posted when `run.phase` is no longer FGB_PAUSE */
};

struct fgb_mark { /* the state of the world at one end of the measured interval */
	struct fgb_instant at;
	double cpu_seconds; /* user and system time of the whole process */
	uint64_t voluntary_switches;
	uint64_t involuntary_switches;
	struct fgi_preemptions preempted;
	uint64_t mode_transitions;
};

struct fgb_round {
	const struct fgb_workload *workload;
	const struct fgb_lock *lock;
	uint64_t threads;
	double seconds;
	double warmup;
	uint64_t hog_count;
	uint64_t trace_us;
	uint64_t slice_us;      /* 0: as the scheduler has it */
	struct fgb_levels nice; /* dealt to the threads in turn; none: as the process has it */
	struct fgb_run run;
	struct fgb_mark begin, end;
	uint64_t rss_before, rss_after; /* bytes: before there were threads, and at the end of the measurement */
	sem_t started;                  /* posted by each thread */
	struct fgb_hogs hogs;
	struct fgb_trace trace;
	struct fgb_intervals intervals[2];
	bool ramps;
	struct fgb_ramp ramp;
	struct fgb_worker *workers;
};

void fgb_sleep_until(uint64_t ns); /* of CLOCK_MONOTONIC */

/* Prints the JSON object. Returns 0, FGB_FAILED (no memory, or stdout refuses), or FGB_VIOLATED if what the locks
 * protect does not add up. */
int fgb_report(const struct fgb_round *round);

#endif
