/* SPDX-License-Identifier: MIT */
#include "sync/barrier.h"

#include <errno.h>
#include <limits.h>

#include "runtime/atomic.h"
#include "runtime/futex.h"
#include "runtime/spin.h"
#include "sync/awake.h"

#define ASLEEP 1u
#define PHASE 2u
#define YIELDS 4u /* before destroy sleeps: a thread that leaves has a few instructions to go */
#define NAP_NS 50000u

struct wait {
	const struct fgi_barrier *barrier;
	uint32_t end; /* the phase has ended once `phase` is as large, modulo 2^32 */
};

/* Whatever bit 0 says: `end` has none. */
static inline bool is_before(uint32_t phase, uint32_t end)
{
	return (int32_t)(phase - end) < 0;
}

static bool ended(const void *argument)
{
	const struct wait *w = argument;

	return !is_before(fg_load_acquire(&w->barrier->phase), w->end); /* pairs with end_phase */
}

/* The phase may be one after the present: then the word changes more than once before this one ends.
 * Returns whether the thread has slept. */
static bool sleep_until(struct fgi_barrier *b, uint32_t end)
{
	bool slept = false;
	uint32_t phase;

	while (is_before(phase = fg_load_acquire(&b->phase), end)) { /* pairs with end_phase */
		if (fg_cas_relaxed(&b->phase, phase, phase | ASLEEP) != phase)
			continue;
		slept = true;
		fg_thread.parks++;
		fgi_futex_wait(&b->phase, phase | ASLEEP, CLOCK_MONOTONIC, NULL);
	}
	return slept;
}

static void await_end(struct fgi_barrier *b, uint32_t end)
{
	struct wait w = {b, end};
	struct fgi_awake awake;
	bool slept;

	fgi_awake_begin(&awake, b);
	slept = !fgi_awake_stay(&awake, ended, &w, FGI_NEVER) && sleep_until(b, end);
	fgi_awake_end(&awake, slept, 0);
}

/* By the last thread of the phase. The last of a later phase may have been here first: then this phase has ended.
 * release: what the others did before they arrived is visible to this thread since it has arrived itself. */
static void end_phase(struct fgi_barrier *b, uint32_t end)
{
	uint32_t phase = fg_load_relaxed(&b->phase), seen;

	while (is_before(phase, end)) {
		seen = fg_cas_release(&b->phase, phase, end);
		if (seen == phase) {
			if (phase & ASLEEP)
				fgi_futex_wake(&b->phase, INT_MAX);
			return;
		}
		phase = seen;
	}
}

bool fgi_barrier_wait(struct fgi_barrier *b)
{
	uint64_t number = fg_fetch_add_acq_rel(&b->arrived, 1);
	uint32_t end = (uint32_t)(number / b->count + 1) * PHASE;
	bool is_last = number % b->count == b->count - 1;

	if (is_last)
		end_phase(b, end);
	else
		await_end(b, end);
	fg_fetch_add_release(&b->left, 1); /* pairs with fgi_barrier_destroy; the last access */
	return is_last;
}

/* No thread that leaves knows of this one. It naps, since a yield of a real-time thread lets no ordinary one run. */
int fgi_barrier_destroy(struct fgi_barrier *b)
{
	uint64_t arrived = fg_load_relaxed(&b->arrived);

	if (arrived % b->count)
		return EBUSY;
	for (uint32_t looks = 0; fg_load_acquire(&b->left) != (uint32_t)arrived; looks++) {
		if (looks < YIELDS) {
			fgi_spin_yield();
			continue;
		}
		fg_thread.parks++;
		fgi_nap(NAP_NS);
	}
	return 0;
}
