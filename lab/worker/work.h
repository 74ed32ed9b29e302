/* SPDX-License-Identifier: MIT */
/* What a thread does in a section and between two: it works for a time, or thinks for a random time. */
#ifndef FGB_WORK_H
#define FGB_WORK_H

#include <math.h>

#include "worker/bench.h"
#include "worker/json.h"
#include "worker/options.h"
#include "worker/random.h"

/* Works for so many cycles of the counter. A time off the CPU is not work: two readings are 20 to 100 cycles apart
 * while the thread runs, so a wider gap is a preemption or an interrupt and does not count. */
#define FGB_OFF_CPU 10000

static inline void fgb_work(uint64_t cycles)
{
	uint64_t last = fg_cycles_ordered(), done = 0;

	while (done < cycles) {
		uint64_t now = fg_cycles();

		if (now - last < FGB_OFF_CPU)
			done += now - last;
		last = now;
	}
}

static inline uint64_t fgb_us_to_cycles(double us)
{
	return us > 0 ? (uint64_t)(us * fgb_cycles_per_us()) : 0;
}

struct fgb_think {
	double mean_us;
	bool sleeps;  /* off the CPU; otherwise the thread works */
	bool uniform; /* from 0 to twice the mean; otherwise exponential */
	double cycles_per_us;
};

/* A sleep lasts longer than drawn by what the system adds to every sleep (its timer slack, 50 us unless changed). */
static inline void fgb_think(const struct fgb_think *t, struct fgb_thread *self)
{
	double share, us;

	if (t->mean_us <= 0)
		return;
	share = ((double)(fgb_random(&self->random) >> 11) + 0.5) * 0x1p-53; /* in (0, 1) */
	us = t->mean_us * (t->uniform ? 2 * share : -log(share));
	if (t->sleeps)
		fgi_nap((uint32_t)(us < 4e6 ? us * 1e3 : 4e9));
	else
		fgb_work((uint64_t)(us * t->cycles_per_us));
}

#define FGB_THINK_OPTIONS(think, brief)                                                                                \
	FGB_OPTION_REAL("--think-us", brief, 0, 1e6, &(think)->mean_us),                                               \
		FGB_OPTION_FLAG("--think-sleeps", "a thinking thread sleeps instead of working", &(think)->sleeps),    \
		FGB_OPTION_FLAG("--think-uniform", "from 0 to twice the mean, instead of exponential",                 \
				&(think)->uniform)

static inline void fgb_think_describe(const struct fgb_think *think)
{
	fgb_json_real("think_us", think->mean_us);
	fgb_json_flag("think_sleeps", think->sleeps);
	fgb_json_flag("think_uniform", think->uniform);
}

#endif
