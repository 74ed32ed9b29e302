/* SPDX-License-Identifier: MIT */
/* Shared-memory access (section 5.2, figures 1 and 2): lock, write to a few cache lines, unlock, wait a little.
 *
 * One lock, or many, each with lines of its own, of which every operation takes one at random. */

#include "worker/json.h"
#include "worker/objects.h"

static struct {
	struct fgb_objects objects;
	uint64_t section_cycles;
} fgb_shm = {{1, 2, 0, 0, NULL}, 0};

static inline uint64_t fgb_shm_one(struct fgb_thread *self, uint64_t now)
{
	(void)self;
	(void)now;
	return 0;
}

static inline uint64_t fgb_shm_any(struct fgb_thread *self, uint64_t now)
{
	(void)now;
	return fgb_below(fgb_random(&self->random), fgb_shm.objects.locks);
}

static inline struct fg_lock *fgb_shm_lock(uint64_t object)
{
	return fgb_object_lock(&fgb_shm.objects, object);
}

static inline void fgb_shm_section(struct fgb_thread *self, uint64_t object)
{
	uint64_t first = fgb_object_enter(&fgb_shm.objects, object);

	(void)self;
	if (fgb_shm.section_cycles)
		fgb_spin(fg_cycles_ordered(), fgb_shm.section_cycles);
	fgb_object_leave(&fgb_shm.objects, object, first);
}

__attribute__((noinline)) static void fgb_shm_loop(const struct fgb_run *run, uint32_t phase, struct fgb_thread *self)
{
	if (fgb_shm.objects.locks == 1)
		fgb_operate(run, phase, self, false, fgb_shm_one, fgb_shm_lock, fgb_shm_section);
	else
		fgb_operate(run, phase, self, true, fgb_shm_any, fgb_shm_lock, fgb_shm_section);
}

static int fgb_shm_prepare(const struct fgb_run *run)
{
	(void)run;
	return fgb_objects_make(&fgb_shm.objects);
}

static bool fgb_shm_adds_up(uint64_t ops)
{
	return fgb_objects_add_up(&fgb_shm.objects, ops);
}

static uint64_t fgb_shm_locks(void)
{
	return fgb_shm.objects.locks;
}

static void fgb_shm_describe(void)
{
	fgb_json_count("section_cycles", fgb_shm.section_cycles);
	fgb_json_count("lines", fgb_shm.objects.lines);
	fgb_json_count("locks", fgb_shm.objects.locks);
}

static const struct fgb_option fgb_shm_options[] = {
	FGB_OPTION_NUMBER("--lines", "cache lines written in a section", 1, 65536, &fgb_shm.objects.lines),
	FGB_OPTION_NUMBER("--section-cycles", "cycles that a section lasts longer", 0, 1e12, &fgb_shm.section_cycles),
	FGB_OPTION_NUMBER("--lock-count", "locks, of which every operation takes one at random", 1, 1e7,
			  &fgb_shm.objects.locks),
	FGB_OPTIONS_END,
};

static const struct fgb_workload fgb_workload_shm = {
	.name = "shm",
	.brief = "shared-memory access: lock, write to a few shared lines, unlock, wait",
	.cycles_between = 100,
	.sample = 16,
	.options = fgb_shm_options,
	.prepare = fgb_shm_prepare,
	.loop = fgb_shm_loop,
	.adds_up = fgb_shm_adds_up,
	.locks = fgb_shm_locks,
	.describe = fgb_shm_describe,
};
