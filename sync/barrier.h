/* SPDX-License-Identifier: MIT */
/* A barrier whose waiters stay awake as at the switching condition variable (sync/awake.h), then sleep.
 *
 *   phase    two a phase; bit 0: a thread sleeps until the phase ends. The last thread to arrive exchanges it, its last
 *            access
 *   arrived  threads that have arrived in this phase
 *   left     threads that have seen a phase end, in all, but for the last of each: destroy waits for them */
#ifndef FGI_SYNC_BARRIER_H
#define FGI_SYNC_BARRIER_H

#include <stdbool.h>
#include <stdint.h>

struct fgi_barrier {
	uint32_t phase;
	uint32_t arrived;
	uint32_t count;  /* constant: 1 or more */
	uint32_t unused; /* the pthread layer's */
	uint32_t left;
};

/* Waits until `count` threads have arrived. Returns true in the last of them. acq_rel: what each did before it arrived
 * is visible to all that leave. */
bool fgi_barrier_wait(struct fgi_barrier *b);

/* Waits until every thread of the last phase has left. EBUSY if a thread waits for the next phase to end. */
int fgi_barrier_destroy(struct fgi_barrier *b);

#endif
