/* SPDX-License-Identifier: MIT */
/* A barrier whose waiters stay awake as at the switching condition variable (sync/awake.h), then sleep.
 *
 * Each arrival draws a number, and `count` numbers in a row are a phase. So more threads than `count` may use it: one
 * that arrives while a phase ends belongs to the next.
 *
 *   phase    the phases that have ended, times two; bit 0: a thread sleeps until it changes
 *   arrived  arrivals, in all
 *   left     arrivals whose thread has left, its last access, modulo 2^32: destroy waits for them */
#ifndef FGI_SYNC_BARRIER_H
#define FGI_SYNC_BARRIER_H

#include <stdbool.h>
#include <stdint.h>

struct fgi_barrier {
	uint32_t phase;
	uint32_t left;
	uint32_t count;  /* constant: 1 or more */
	uint32_t shared; /* in a pthread_barrier_t glibc's word: not 0 if processes share the barrier */
	uint64_t arrived;
};

/* Waits until `count` threads have arrived. Returns true in the last of them. acq_rel: what each did before it arrived
 * is visible to all that leave. */
bool fgi_barrier_wait(struct fgi_barrier *b);

/* Waits until every thread has left. EBUSY if a thread waits for the next phase to end. */
int fgi_barrier_destroy(struct fgi_barrier *b);

#endif
