/* SPDX-License-Identifier: MIT */
/* A barrier: each thread waits until so many have arrived, phase after phase.
 *
 *   static struct fg_barrier b = FG_BARRIER_INIT(4);
 *   fg_barrier_wait(&b);
 *
 * 24 bytes. More threads than the count may use it. Its memory may go when fg_barrier_destroy has returned, which any
 * thread that has left it may call. Private to a process. All calls are thread-safe; none allocates, prints, touches
 * errno, or ends the process. */
#ifndef FLEXGUARD_BARRIER_H
#define FLEXGUARD_BARRIER_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fg_barrier {
	uint64_t opaque[3];
};

/* count: 1 or more. */
#define FG_BARRIER_INIT(count)                                                                                         \
	{                                                                                                              \
		{                                                                                                      \
			0, (count), 0                                                                                  \
		}                                                                                                      \
	}

/* Returns true in one thread of each phase. What each thread did before it arrived is visible to all that leave. */
bool fg_barrier_wait(struct fg_barrier *b);

/* Waits until every thread has left. Returns 0, or EBUSY if a thread waits for a phase to end. */
int fg_barrier_destroy(struct fg_barrier *b);

#ifdef __cplusplus
}
#endif
#endif
