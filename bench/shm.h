/* SPDX-License-Identifier: MIT */
/* The shared-memory-access microbenchmark: what bench/shm.c measures and bench/shm_report.c prints. */
#ifndef FGB_SHM_H
#define FGB_SHM_H

#include <pthread.h>

#include "bench/bench.h"
#include "bench/clock.h"

struct fgb_worker {                  /* one thread; it writes `counts`, the main thread reads them after joining it */
	struct fgb_counts counts[2]; /* by phase: FGB_WARMUP, FGB_MEASURE */
	const struct fgb_lock *lock;
	const struct fgb_run *run;
	pthread_t thread;
};

struct fgb_mark { /* the state of the world at one end of the measured interval */
	struct fgb_instant at;
	double cpu_seconds; /* user and system time of the whole process */
	uint64_t preempted_holders;
	uint64_t preempted_next_waiters;
	uint64_t mode_transitions;
};

struct fgb_round {
	const struct fgb_lock *lock;
	uint64_t threads;
	double seconds;
	double warmup;
	struct fgb_run run;
	struct fgb_mark begin, end;
	struct fgb_worker *workers;
};

/* Prints the JSON object. Returns 0, FGB_FAILED (no memory, or stdout refuses), or FGB_VIOLATED if a shared line does
 * not hold as many increments as there were operations. */
int fgb_shm_report(const struct fgb_round *round);

#endif
