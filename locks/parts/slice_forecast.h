/* SPDX-License-Identifier: MIT */
/* When does the slice of the thread that asks end? From the monitor's page, for locks that ask for it.
 *
 * The monitor publishes a forecast for each CPU when it switches to a thread (bpf/slice.h says of what). A forecast
 * that has passed by without a switch was renewed in silence: nobody else was to run. Then any tick may end the slice,
 * and the next one counts. A thread that moves to another CPU between finding its number and reading reads another
 * thread's forecast; so nothing but speed may hang on it. */
#ifndef FGI_PARTS_SLICE_FORECAST_H
#define FGI_PARTS_SLICE_FORECAST_H

#include <linux/rseq.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/monitor.h"

/* Of glibc's restartable-sequences area, from the thread pointer; absent before glibc 2.35. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

/* A lock file that says this once makes its process ask for the ends of its slices. */
#define FGI_WANT_SLICE_FORECAST                                                                                        \
	static const uint64_t fgi_want_slice __attribute__((section("fg_wants"), used)) = FG_WANT_SLICE_FORECAST

/* The CPU this thread runs on: a load where glibc has registered a restartable-sequences area, which the kernel keeps
 * up to date; otherwise through the vDSO. */
static inline uint32_t fgi_cpu(void)
{
	if (fg_likely(&__rseq_size && __rseq_size)) {
		const char *area = (const char *)__builtin_thread_pointer() + __rseq_offset;

		return fg_load_relaxed(&((const struct rseq *)area)->cpu_id);
	}
	return (uint32_t)sched_getcpu();
}

/* What is published for this CPU; changes with each slice. 0: nothing is known. */
static inline uint64_t fgi_slice_published(void)
{
	uint32_t cpu = fgi_cpu();

	return cpu < FG_SLICE_CPUS ? fg_load_relaxed(&fg_load_relaxed(&fgi_monitor_page)->slice_end_ns[cpu]) : 0;
}

/* The interrupt comes, and takes effect, this much after its time at most (docs/results/slice-forecast.md): until then
 * the end has not passed by without a switch. */
#define FGI_TICK_LATE_NS 10000u

/* The end of the slice, at most FGI_TICK_LATE_NS before `now`, given what was published; 0: unknown. All times are
 * CLOCK_MONOTONIC. */
static inline uint64_t fgi_slice_end(uint64_t published, uint64_t now)
{
	uint64_t tick;

	if (fg_likely(published == 0 || published + FGI_TICK_LATE_NS > now))
		return published;
	tick = fg_load_relaxed(&fg_load_relaxed(&fgi_monitor_page)->tick_ns);
	return tick ? published + ((now - FGI_TICK_LATE_NS - published) / tick + 1) * tick : 0;
}

#endif
