/* SPDX-License-Identifier: MIT */
/* Threads that work for a while and then meet at a barrier, phase after phase. An operation is one thread that has left
 * the barrier; its wait lasts from its arrival until it runs again. */
#include "worker/handing.h"
#include "worker/json.h"

static struct {
	double work_us;
	struct fgb_think think; /* beside the work: what makes threads arrive at different times */
	uint64_t work_cycles;
	pthread_barrier_t barrier;
	uint64_t last;  /* threads that were told to be the last, in all: one a phase */
	uint64_t count; /* arrivals in all */
	uint32_t next;  /* the round's phase after the barrier, as one thread saw it: all leave together */
} fgb_barrier;

/* Between two barriers one thread alone looks at the phase, so that all see the same. */
__attribute__((noinline)) static void fgb_barrier_loop(const struct fgb_run *run, uint32_t phase,
						       struct fgb_thread *self)
{
	struct fgb_counts *counts = &self->counts[phase];

	while (fg_load_relaxed(&fgb_barrier.next) == phase) {
		uint64_t asked, left;

		fgb_work(fgb_barrier.work_cycles);
		fgb_think(&fgb_barrier.think, self);
		if (fg_fetch_add_acquire(&fgb_barrier.count, 1) % run->threads == run->threads - 1)
			fg_store_relaxed(&fgb_barrier.next, fg_load_relaxed(&run->phase));
		asked = fg_cycles_ordered();
		if (pthread_barrier_wait(&fgb_barrier.barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
			fg_fetch_add_relaxed(&fgb_barrier.last, 1);
		left = fg_cycles_ordered();
		fgb_count(counts, asked, left, left);
	}
}

static int fgb_barrier_prepare(const struct fgb_run *run)
{
	fgb_barrier.think.cycles_per_us = fgb_cycles_per_us();
	fgb_barrier.work_cycles = fgb_us_to_cycles(fgb_barrier.work_us);
	return pthread_barrier_init(&fgb_barrier.barrier, NULL, (unsigned int)run->threads) ? FGB_FAILED : 0;
}

static bool fgb_barrier_adds_up(uint64_t ops)
{
	return fgb_barrier.count == ops && pthread_barrier_destroy(&fgb_barrier.barrier) == 0 &&
	       ops % fgb_barrier.last == 0;
}

static uint64_t fgb_barrier_locks(void)
{
	return 1;
}

static void fgb_barrier_describe(void)
{
	fgb_json_real("work_us", fgb_barrier.work_us);
	fgb_json_count("phases", fgb_barrier.last);
	fgb_think_describe(&fgb_barrier.think);
}

static const struct fgb_option fgb_barrier_options[] = {
	FGB_OPTION_REAL("--work-us", "each thread works for so long between two barriers", 0, 1e6,
			&fgb_barrier.work_us),
	FGB_THINK_OPTIONS(&fgb_barrier.think, "and then, at random, on average"),
	FGB_OPTIONS_END,
};

static const struct fgb_workload fgb_workload_barrier = {
	.name = "barrier",
	.brief = "threads that meet at a barrier, phase after phase; wait: from arriving to running on",
	.sample = 1,
	.own_loop = true,
	.options = fgb_barrier_options,
	.prepare = fgb_barrier_prepare,
	.loop = fgb_barrier_loop,
	.adds_up = fgb_barrier_adds_up,
	.locks = fgb_barrier_locks,
	.describe = fgb_barrier_describe,
};
