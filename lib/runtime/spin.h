/* SPDX-License-Identifier: MIT */
/* Busy-waiting. Every lock waits and counts by these functions only, so that the spin counts of different locks can be
 * compared (tests/unit/spins.c compares them with a count of the pauses themselves).
 *
 * A spin is one iteration of such a wait: a spin hint (PAUSE on x86-64), or one sched_yield of a waiter that is going
 * to look again. It does not include a look: a lock with back-off spins several times between two looks. A spin lasts
 * 15 to 50 ns. */
#ifndef FGI_SPIN_H
#define FGI_SPIN_H

#include <stdint.h>

#include "runtime/arch/arch.h"
#include "runtime/block.h"
#include "runtime/sandbox.h"

static inline void fgi_spin_times(uint32_t spins)
{
	fg_thread.spins += spins;
	for (uint32_t i = 0; i < spins; i++)
		fg_pause();
}

/* The same before a look at a lock that the waiter wants to disturb seldom. */
static inline void fgi_back_off(uint32_t spins)
{
	fgi_spin_times(spins);
	fg_load_fence();
}

static inline void fgi_spin_once(void)
{
	fgi_spin_times(1);
}

/* A spin that offers the CPU to another thread. No cancellation point; never fails, so errno is kept. */
static inline void fgi_spin_yield(void)
{
	fg_thread.spins++;
	fgi_system_yield();
}

#endif
