/* SPDX-License-Identifier: MIT */
/* A server's threads: each thinks for a random time, working or sleeping, then needs a lock for a section of a fixed
 * length. One lock can do at most 1 / S sections, n CPUs at most n / (S + T). */

#include "worker/json.h"
#include "worker/objects.h"
#include "worker/work.h"

static struct {
	struct fgb_objects objects;
	struct fgb_think think;
	double section_us;
	uint64_t section_cycles;
} fgb_server = {{1, 2, 0, 0, NULL}, {20, false, false, 0}, 5, 0};

static inline uint64_t fgb_server_choose(struct fgb_thread *self, uint64_t now)
{
	(void)now;
	fgb_think(&fgb_server.think, self);
	return fgb_object_any(&fgb_server.objects, self);
}

static inline struct fg_lock *fgb_server_lock(uint64_t object)
{
	return fgb_object_lock(&fgb_server.objects, object);
}

static inline void fgb_server_section(struct fgb_thread *self, uint64_t object)
{
	uint64_t first = fgb_object_enter(&fgb_server.objects, object);

	(void)self;
	fgb_work(fgb_server.section_cycles);
	fgb_object_leave(&fgb_server.objects, object, first);
}

__attribute__((noinline)) static void fgb_server_loop(const struct fgb_run *run, uint32_t phase,
						      struct fgb_thread *self)
{
	fgb_operate(run, phase, self, true, fgb_server_choose, fgb_server_lock, fgb_server_section);
}

static int fgb_server_prepare(const struct fgb_run *run)
{
	(void)run;
	fgb_server.think.cycles_per_us = fgb_cycles_per_us();
	fgb_server.section_cycles = fgb_us_to_cycles(fgb_server.section_us);
	return fgb_objects_make(&fgb_server.objects);
}

static bool fgb_server_adds_up(uint64_t ops)
{
	return fgb_objects_add_up(&fgb_server.objects, ops);
}

static uint64_t fgb_server_locks(void)
{
	return fgb_server.objects.locks;
}

static void fgb_server_describe(void)
{
	fgb_json_real("section_us", fgb_server.section_us);
	fgb_think_describe(&fgb_server.think);
	fgb_json_count("locks", fgb_server.objects.locks);
}

static const struct fgb_option fgb_server_options[] = {
	FGB_OPTION_REAL("--section-us", "a section lasts", 0, 1e6, &fgb_server.section_us),
	FGB_THINK_OPTIONS(&fgb_server.think, "between two sections, at random, on average"),
	FGB_OPTION_NUMBER("--lock-count", "locks, of which every operation takes one at random", 1, 1e7,
			  &fgb_server.objects.locks),
	FGB_OPTIONS_END,
};

static const struct fgb_workload fgb_workload_server = {
	.name = "server",
	.brief = "threads that think at random and then need a lock for a while",
	.sample = 1,
	.options = fgb_server_options,
	.prepare = fgb_server_prepare,
	.loop = fgb_server_loop,
	.adds_up = fgb_server_adds_up,
	.locks = fgb_server_locks,
	.describe = fgb_server_describe,
};
