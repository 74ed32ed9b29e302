/* SPDX-License-Identifier: MIT */
/* How long a waiter stays awake before it sleeps: the waiting of the switching condition variable, and of read-write
 * locks and barriers.
 *
 * A thread that sleeps needs two system calls and, where its CPU has become idle, 5 to 50 us to run again. A waiter
 * that stays awake sees its event at once, but takes CPU time from others. So it stays awake only
 *
 *   while nothing critical is preempted, as the monitor knows: then it gets out of the way at once;
 *   for FGI_AWAKE_NS of its own CPU time, about what sleeping costs. It offers its CPU to others all the time, and what
 *     they use of it is theirs. FGI_AWAKE_UNMONITORED_NS without a monitor;
 *   if its policy is not real-time: then a yield offers nothing to most threads, and under SCHED_DEADLINE too much;
 *   while no other thread takes its CPU for long (FGI_AWAKE_TAKEN_NS): then there is better use for it;
 *   where its own history says that the event comes soon. */
#ifndef FGI_SYNC_AWAKE_H
#define FGI_SYNC_AWAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/deadline.h"

/* Chosen by the workloads that wait through pthread calls (docs/results/condition-variables.md). */
#define FGI_AWAKE_NS 20000u
#define FGI_AWAKE_UNMONITORED_NS 10000u
#define FGI_AWAKE_TAKEN_NS 600000u
#define FGI_AWAKE_TAKEN_TIMES 50u /* so many times as long no waiter stays awake: at most 2 % of the time is lost */
/* What takes longer is no other thread: the process was stopped, or the machine. It counts as this. */
#define FGI_AWAKE_TAKEN_MOST_NS 100000000ull

/* What a thread has learned about the objects that it waits on: a few entries, each for those whose address leads
 * there. `misses` grows when the event did not come while the waiter was awake, or would have, and
 * shrinks when it did; after a miss the thread sleeps at once for 2^misses - 1 waits. */
struct fgi_history {
	uint8_t misses;
	uint8_t sleeps_left;
};

struct fgi_awake { /* one wait */
	struct fgi_history *history;
	uint64_t begin_ns;
	bool stayed; /* awake, for some time */
};

/* The wait for an event at `object` begins. Of a condition variable: before the mutex is unlocked. NULL: such waits say
 * nothing of one another. The thread stays awake, and learns nothing: fgi_awake_end is not called. */
void fgi_awake_begin(struct fgi_awake *a, const void *object);

/* Stays awake until ready(argument), then it returns true, or until the thread should sleep. A cancellation may end it
 * anywhere. Once a wait. */
bool fgi_awake_stay(struct fgi_awake *a, bool (*ready)(const void *), const void *argument, struct fgi_deadline until);

/* The wait is over, `slept` or not: learns. `event_ns`: when the event came while the thread slept (CLOCK_MONOTONIC);
 * 0: not known. */
void fgi_awake_end(const struct fgi_awake *a, bool slept, uint64_t event_ns);

#endif
