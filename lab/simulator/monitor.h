/* SPDX-License-Identifier: MIT */
/* The monitor under the simulator: its own code, compiled natively, sees tasks that stand for the simulated threads. */
#ifndef FGS_MONITOR_H
#define FGS_MONITOR_H

#include <stdbool.h>
#include <stdint.h>

struct fgs_task_state { /* what the monitor may read of a thread that is switched in or out */
	int64_t vruntime, deadline, protected_until;
	uint32_t weight, queued;
	uint64_t since_ns; /* when it was switched in */
	int policy;
};

struct fg_published;
struct fgs_task;

/* What it publishes. */
struct fg_published *fgs_monitor_start(uint32_t cpus, uint64_t tick_ns);

struct fgs_task *fgs_monitor_task(int tid, int process, bool registered, uint64_t thread_pointer);
struct fgs_task *fgs_monitor_idle_task(void);

/* fg_sched_switch, on the CPU that the caller simulates. */
void fgs_monitor_switch(struct fgs_task *before, struct fgs_task *after, bool runnable,
			const struct fgs_task_state *of_before, const struct fgs_task_state *of_after);

#endif
