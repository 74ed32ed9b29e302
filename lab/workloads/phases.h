/* SPDX-License-Identifier: MIT */
/* A parallel program's phases: each thread takes the lock so many times, then all meet at a barrier. The round is as
 * fast as its last thread, so a waiter that sleeps beside a free lock and an idle CPU costs all the others. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "worker/json.h"
#include "worker/objects.h"
#include "worker/work.h"

static struct {
	struct fgb_objects objects;
	double section_us;
	uint64_t sections, section_cycles;
	pthread_barrier_t barrier;
	uint64_t arrived;  /* in all rounds together */
	uint64_t barriers; /* that were met; like `next`, written by the last thread that arrives */
	uint32_t next;     /* the round's phase after the barrier, as the last thread saw it: all leave together */
} fgb_phases = {{1, 2, 0, 0, NULL}, 1, 80, 0, {{0}}, 0, 0, 0};

/* The barrier orders `next`: its writer arrives before any thread leaves, and all have left before it is written
 * again. */
static void fgb_phases_meet(const struct fgb_run *run)
{
	if (fg_fetch_add_acquire(&fgb_phases.arrived, 1) % run->threads == run->threads - 1) {
		fg_store_relaxed(&fgb_phases.next, fg_load_relaxed(&run->phase));
		fgb_phases.barriers++;
	}
	pthread_barrier_wait(&fgb_phases.barrier);
}

__attribute__((noinline)) static void fgb_phases_loop(const struct fgb_run *run, uint32_t phase,
						      struct fgb_thread *self)
{
	struct fgb_counts *counts = &self->counts[phase];

	while (fg_load_relaxed(&fgb_phases.next) == phase) {
		for (uint64_t i = 0; i < fgb_phases.sections; i++) {
			uint64_t object = fgb_object_any(&fgb_phases.objects, self), asked = fg_cycles_ordered();
			struct fg_lock *lock = fgb_object_lock(&fgb_phases.objects, object);
			uint64_t acquired, first;

			fgi_lock(lock);
			acquired = fg_cycles_ordered();
			first = fgb_object_enter(&fgb_phases.objects, object);
			fgb_work(fgb_phases.section_cycles);
			fgb_object_leave(&fgb_phases.objects, object, first);
			fgi_unlock(lock);
			fgb_count(counts, asked, acquired, fg_cycles_ordered());
		}
		fgb_phases_meet(run);
	}
}

static int fgb_phases_prepare(const struct fgb_run *run)
{
	int error = pthread_barrier_init(&fgb_phases.barrier, NULL, (unsigned int)run->threads);

	if (error) {
		fprintf(stderr, "fg-bench: cannot make a barrier: %s\n", strerror(error));
		return FGB_FAILED;
	}
	fgb_phases.section_cycles = fgb_us_to_cycles(fgb_phases.section_us);
	return fgb_objects_make(&fgb_phases.objects);
}

static bool fgb_phases_adds_up(uint64_t ops)
{
	return fgb_objects_add_up(&fgb_phases.objects, ops);
}

static uint64_t fgb_phases_locks(void)
{
	return fgb_phases.objects.locks;
}

static void fgb_phases_describe(void)
{
	fgb_json_real("section_us", fgb_phases.section_us);
	fgb_json_count("sections", fgb_phases.sections);
	fgb_json_count("locks", fgb_phases.objects.locks);
	fgb_json_count("barriers", fgb_phases.barriers);
}

static const struct fgb_option fgb_phases_options[] = {
	FGB_OPTION_REAL("--section-us", "a section lasts", 0, 1e6, &fgb_phases.section_us),
	FGB_OPTION_NUMBER("--sections", "sections of each thread between two barriers", 1, 1e6, &fgb_phases.sections),
	FGB_OPTION_NUMBER("--lock-count", "locks, of which every section takes one at random", 1, 1e7,
			  &fgb_phases.objects.locks),
	FGB_OPTIONS_END,
};

static const struct fgb_workload fgb_workload_phases = {
	.name = "phases",
	.brief = "rounds with a barrier at the end: each thread takes the lock some times, then all meet",
	.sample = 1,
	.own_loop = true,
	.options = fgb_phases_options,
	.prepare = fgb_phases_prepare,
	.loop = fgb_phases_loop,
	.adds_up = fgb_phases_adds_up,
	.locks = fgb_phases_locks,
	.describe = fgb_phases_describe,
};
