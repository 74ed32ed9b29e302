/* SPDX-License-Identifier: MIT */
/* How many threads of the round are runnable, over time (figure 5a): a thread that reads their states from /proc.
 *
 * Reading a state takes no lock that a context switch takes. The sampler holds the files open, and looks less often
 * than asked for where looking would take more than 1/FGB_TRACE_SHARE of a CPU. */
#ifndef FGB_TRACE_H
#define FGB_TRACE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define FGB_TRACE_SHARE 50
#define FGB_TRACE_US_MIN 100

struct fgb_trace {
	uint64_t interval_us;
	uint32_t threads;
	int *files; /* /proc/self/task/TID/stat of each */
	uint32_t *times_us;
	uint32_t *samples;
	uint64_t count, capacity;
	double cpu_seconds; /* what the sampler itself has burnt */
	uint32_t stop;
	bool running;
	pthread_t thread;
};

/* Opens what it will read. 0, or FGB_FAILED after a message. interval_us 0: does nothing, and so do the others. */
int fgb_trace_open(struct fgb_trace *t, uint64_t interval_us, const pid_t *tids, uint32_t threads, double seconds);
int fgb_trace_start(struct fgb_trace *t);
void fgb_trace_stop(struct fgb_trace *t);
void fgb_trace_free(struct fgb_trace *t);

/* A member "runnable" followed by a comma. */
void fgb_trace_print(const struct fgb_trace *t);

#endif
