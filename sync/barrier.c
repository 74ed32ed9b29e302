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

struct wait {
	const struct fgi_barrier *barrier;
	uint32_t phase;
};

static bool ended(const void *argument)
{
	const struct wait *w = argument;

	return (fg_load_acquire(&w->barrier->phase) & ~ASLEEP) != w->phase; /* pairs with the exchange */
}

static void await_end(struct fgi_barrier *b, uint32_t phase)
{
	struct wait w = {b, phase};
	struct fgi_awake awake;
	bool slept = false;

	fgi_awake_begin(&awake, b);
	if (!fgi_awake_stay(&awake, ended, &w, CLOCK_MONOTONIC, NULL)) {
		while (!ended(&w)) {
			slept = true;
			if (fg_cas_relaxed(&b->phase, phase, phase | ASLEEP) != phase && ended(&w))
				break;
			fg_thread.parks++;
			fgi_futex_wait(&b->phase, phase | ASLEEP, CLOCK_MONOTONIC, NULL);
		}
	}
	fgi_awake_end(&awake, slept, 0);
	fg_fetch_add_release(&b->left, 1); /* pairs with fgi_barrier_destroy; the last access */
}

bool fgi_barrier_wait(struct fgi_barrier *b)
{
	uint32_t phase = fg_load_acquire(&b->phase) & ~ASLEEP, count = b->count;

	if (fg_fetch_add_acq_rel(&b->arrived, 1) != count - 1) {
		await_end(b, phase);
		return false;
	}
	fg_store_relaxed(&b->arrived, 0);
	if (fg_xchg_acq_rel(&b->phase, phase + PHASE) & ASLEEP)
		fgi_futex_wake(&b->phase, INT_MAX);
	return true;
}

int fgi_barrier_destroy(struct fgi_barrier *b)
{
	uint32_t left = fg_load_relaxed(&b->phase) / PHASE * (b->count - 1);

	if (fg_load_relaxed(&b->arrived))
		return EBUSY;
	while (((fg_load_acquire(&b->left) - left) << 1) != 0) /* modulo 2^31, as `phase` counts */
		fgi_spin_yield();
	return 0;
}
