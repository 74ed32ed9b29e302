/* SPDX-License-Identifier: MIT */
/* Threads that fight for a spinlock of pthread's. Each section changes two values, by steps; one that finds them apart
 * has been let in beside another. */
#include "worker/handing.h"
#include "worker/json.h"

static struct {
	double section_us;
	struct fgb_think think;
	uint64_t section_cycles;
	pthread_spinlock_t lock __attribute__((aligned(FGB_ALONE)));
	uint64_t first __attribute__((aligned(FGB_ALONE))), second; /* the lock protects them, and `torn` */
	uint64_t torn;
} fgb_spinlock;

static void fgb_spinlock_section(void)
{
	uint64_t first = fg_load_relaxed(&fgb_spinlock.first);

	if (first != fg_load_relaxed(&fgb_spinlock.second))
		fgb_spinlock.torn++;
	fg_store_relaxed(&fgb_spinlock.first, first + 1);
	fgb_work(fgb_spinlock.section_cycles);
	fg_store_relaxed(&fgb_spinlock.second, fgb_spinlock.second + 1);
}

__attribute__((noinline)) static void fgb_spinlock_loop(const struct fgb_run *run, uint32_t phase,
							struct fgb_thread *self)
{
	struct fgb_counts *counts = &self->counts[phase];

	while (fg_load_relaxed(&run->phase) == phase) {
		uint64_t asked = 0, had = 0;
		bool timed = counts->ops % run->sample == 0;

		fgb_think(&fgb_spinlock.think, self);
		if (timed)
			asked = fg_cycles_ordered();
		pthread_spin_lock(&fgb_spinlock.lock);
		if (timed)
			had = fg_cycles_ordered();
		fgb_spinlock_section();
		pthread_spin_unlock(&fgb_spinlock.lock);
		if (timed)
			fgb_count(counts, asked, had, fg_cycles_ordered());
		else
			fg_store_relaxed(&counts->ops, counts->ops + 1);
	}
}

static int fgb_spinlock_prepare(const struct fgb_run *run)
{
	(void)run;
	fgb_spinlock.think.cycles_per_us = fgb_cycles_per_us();
	fgb_spinlock.section_cycles = fgb_us_to_cycles(fgb_spinlock.section_us);
	return pthread_spin_init(&fgb_spinlock.lock, PTHREAD_PROCESS_PRIVATE) ? FGB_FAILED : 0;
}

static bool fgb_spinlock_adds_up(uint64_t ops)
{
	return !fgb_spinlock.torn && fgb_spinlock.first == ops && fgb_spinlock.second == ops;
}

static void fgb_spinlock_describe(void)
{
	fgb_json_real("section_us", fgb_spinlock.section_us);
	fgb_think_describe(&fgb_spinlock.think);
}

static const struct fgb_option fgb_spinlock_options[] = {
	FGB_OPTION_REAL("--section-us", "a section lasts", 0, 1e6, &fgb_spinlock.section_us),
	FGB_THINK_OPTIONS(&fgb_spinlock.think, "between two sections, at random, on average"),
	FGB_OPTIONS_END,
};

static const struct fgb_workload fgb_workload_spinlock = {
	.name = "spinlock",
	.brief = "threads that fight for a spinlock",
	.sample = 16,
	.own_loop = true,
	.options = fgb_spinlock_options,
	.prepare = fgb_spinlock_prepare,
	.loop = fgb_spinlock_loop,
	.adds_up = fgb_spinlock_adds_up,
	.describe = fgb_spinlock_describe,
};
