/* SPDX-License-Identifier: MIT */
/* When the time slice of the calling thread ends, for locks that ask the monitor for it: a forecast.
 *
 * The monitor publishes a forecast for each CPU when the CPU switches to a thread (monitor/bpf/slice.h says how it is
 * made). If the forecast time passes without a switch, no other thread wanted the CPU and the slice was renewed. Then
 * any tick may end the slice, and the next tick counts. A thread that moves to another CPU between finding the CPU's
 * number and reading reads another thread's forecast, so only speed may depend on it. */
#ifndef FGI_LOCK_SLICE_FORECAST_H
#define FGI_LOCK_SLICE_FORECAST_H

#include <stdint.h>

#include "runtime/cpu.h"
#include "runtime/monitor.h"

/* A lock file with this line makes its process ask the monitor for the forecasts. */
#define FGI_WANT_SLICE_FORECAST                                                                                        \
	static const uint64_t fgi_want_slice __attribute__((section("fg_wants"), used)) = FG_WANT_SLICE_FORECAST

/* What is published for this CPU; it changes with each slice. 0: unknown. */
static inline uint64_t fgi_slice_published(void)
{
	const struct fg_cpu *line = fgi_cpu_line(fgi_cpu());

	return line ? fg_load_relaxed(&line->slice_end_ns) : 0;
}

/* The interrupt that ends a slice comes, and takes effect, at most this much after its time
 * (docs/results/slice-forecast.md). Before that a slice whose end has passed may still end there. */
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
