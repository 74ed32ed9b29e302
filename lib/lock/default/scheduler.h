/* SPDX-License-Identifier: MIT */
/* What a waiter wants to know of the scheduler: what its CPU would do without it. From the monitor's page, all of it
 * hints, on which no more than speed depends. */
#ifndef FGI_DEFAULT_SCHEDULER_H
#define FGI_DEFAULT_SCHEDULER_H

#include <stdbool.h>
#include <stdint.h>

#include "lock/default/numbers.h"
#include "lock/slice_forecast.h"
#include "runtime/clock.h"
#include "runtime/monitor.h"
#include "runtime/policy.h"
#include "runtime/spin.h"

/* Until when other processes are taken to compete for the CPUs: CLOCK_MONOTONIC. */
static uint64_t fgi_others_compete_until;

/* Then a yield would give the CPU away for a time slice. */
static inline bool fgi_others_compete(uint64_t now)
{
	return now < fg_load_relaxed(&fgi_others_compete_until);
}

/* The CPUs on which waiters of this process have run, and their number. The kernel is not asked: what it says of one
 * thread need not hold for the others, and a program that has put itself into a sandbox may be killed for asking. */
static uint64_t fgi_cpu_set[FG_CPUS / 64]; /* a CPU of a higher number shares a place */
static uint32_t fgi_cpus;

static inline bool fgi_few_cpus(void)
{
	uint32_t cpu = fgi_cpu() % FG_CPUS;
	uint64_t *set = &fgi_cpu_set[cpu / 64], here = (uint64_t)1 << cpu % 64;

	if (fg_unlikely(!(fg_load_relaxed(set) & here)) && !(fg_fetch_or_relaxed(set, here) & here))
		fg_fetch_add_relaxed(&fgi_cpus, 1);
	return fg_load_relaxed(&fgi_cpus) <= FGI_FEW_CPUS;
}

/* Offers the CPU, unless another process is said to wait for it: that would keep it for a slice. If one has taken it
 * for a slice nevertheless, as the monitor says, or the time where it does not know, the waiters of this process yield
 * no more for a while. Returns for how many ns the CPU was away. */
static inline uint64_t fgi_yield(uint64_t now)
{
	struct fgi_process_switch before = fgi_process_switch();
	uint64_t after = now, until = 0;

	if (before.stay & FG_STAY_WAITS) {
		until = now + FGI_SOME * FGI_LONG_WAIT_NS;
	} else {
		fgi_spin_yield();
		after = fgi_now_ns(CLOCK_MONOTONIC);
		if (fgi_gave_slice_away(before, before.cpu == FGI_CPU_UNKNOWN && after - now > FGI_SLICE_US * 1000))
			until = after + FGI_COMPETE_NS;
	}
	if (fg_load_relaxed(&fgi_others_compete_until) < until)
		fg_store_relaxed(&fgi_others_compete_until, until);
	return after - now;
}

#endif
