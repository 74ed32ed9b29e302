/* SPDX-License-Identifier: MIT */
/* A holder that yields its CPU in its section, with several locks, as `sysbench threads` has it: a thread keeps to one
 * lock for a number of sections, then takes the next lock. */
#include <sched.h>

#include "worker/json.h"
#include "worker/objects.h"
#include "worker/work.h"

static struct {
	struct fgb_objects objects;
	uint64_t yields, stay;
} fgb_yielding = {{8, 2, 0, 0, NULL}, 1, 1000};

/* scratch[0]: the lock's number; scratch[1]: how many sections are left with it */
static inline uint64_t fgb_yielding_choose(struct fgb_thread *self, uint64_t now)
{
	(void)now;
	if (self->scratch[1] == 0) {
		self->scratch[1] = fgb_yielding.stay;
		self->scratch[0] = fgb_object_any(&fgb_yielding.objects, self);
	}
	self->scratch[1]--;
	return self->scratch[0];
}

static inline struct fg_lock *fgb_yielding_lock(uint64_t object)
{
	return fgb_object_lock(&fgb_yielding.objects, object);
}

static inline void fgb_yielding_section(struct fgb_thread *self, uint64_t object)
{
	uint64_t first = fgb_object_enter(&fgb_yielding.objects, object);

	(void)self;
	for (uint64_t i = 0; i < fgb_yielding.yields; i++)
		sched_yield();
	fgb_object_leave(&fgb_yielding.objects, object, first);
}

__attribute__((noinline)) static void fgb_yielding_loop(const struct fgb_run *run, uint32_t phase,
							struct fgb_thread *self)
{
	fgb_operate(run, phase, self, true, fgb_yielding_choose, fgb_yielding_lock, fgb_yielding_section);
}

static int fgb_yielding_prepare(const struct fgb_run *run)
{
	(void)run;
	return fgb_objects_make(&fgb_yielding.objects);
}

static bool fgb_yielding_adds_up(uint64_t ops)
{
	return fgb_objects_add_up(&fgb_yielding.objects, ops);
}

static uint64_t fgb_yielding_locks(void)
{
	return fgb_yielding.objects.locks;
}

static void fgb_yielding_describe(void)
{
	fgb_json_count("yields", fgb_yielding.yields);
	fgb_json_count("stay", fgb_yielding.stay);
	fgb_json_count("locks", fgb_yielding.objects.locks);
}

static const struct fgb_option fgb_yielding_options[] = {
	FGB_OPTION_NUMBER("--yields", "how often a holder yields in a section", 0, 1e6, &fgb_yielding.yields),
	FGB_OPTION_NUMBER("--stay", "sections with one lock before the next is drawn", 1, 1e9, &fgb_yielding.stay),
	FGB_OPTION_NUMBER("--lock-count", "locks", 1, 1e7, &fgb_yielding.objects.locks),
	FGB_OPTIONS_END,
};

static const struct fgb_workload fgb_workload_yielding = {
	.name = "yielding",
	.brief = "the holder yields its CPU in its section; several locks, as sysbench threads",
	.sample = 1,
	.options = fgb_yielding_options,
	.prepare = fgb_yielding_prepare,
	.loop = fgb_yielding_loop,
	.adds_up = fgb_yielding_adds_up,
	.locks = fgb_yielding_locks,
	.describe = fgb_yielding_describe,
};
