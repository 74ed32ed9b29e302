/* SPDX-License-Identifier: MIT */
/* Threads that read, and at times write, what a read-write lock protects. A write changes two values by steps; a reader
 * that finds them apart has been let in beside a writer. */
#include "worker/handing.h"
#include "worker/json.h"

struct fgb_rwlock_cell {
	pthread_rwlock_t lock __attribute__((aligned(FGB_ALONE)));
	uint64_t first __attribute__((aligned(FGB_ALONE))), second;
};

static struct {
	double reads, section_us;
	struct fgb_think think;
	bool prefer_writers;
	uint64_t locks, section_cycles, reads_share;
	uint64_t writes; /* in all */
	uint64_t torn;   /* readers that found the values apart */
	struct fgb_rwlock_cell *cells;
} fgb_rwlock = {.reads = 90, .locks = 1};

static void fgb_rwlock_read(struct fgb_rwlock_cell *cell)
{
	uint64_t first = fg_load_relaxed(&cell->first);

	fgb_work(fgb_rwlock.section_cycles);
	if (first != fg_load_relaxed(&cell->second))
		fg_fetch_add_relaxed(&fgb_rwlock.torn, 1);
}

static void fgb_rwlock_write(struct fgb_rwlock_cell *cell)
{
	fg_store_relaxed(&cell->first, cell->first + 1);
	fgb_work(fgb_rwlock.section_cycles);
	fg_store_relaxed(&cell->second, cell->second + 1);
}

__attribute__((noinline)) static void fgb_rwlock_loop(const struct fgb_run *run, uint32_t phase,
						      struct fgb_thread *self)
{
	struct fgb_counts *counts = &self->counts[phase];

	while (fg_load_relaxed(&run->phase) == phase) {
		uint64_t random = fgb_random(&self->random), asked = 0, had = 0;
		struct fgb_rwlock_cell *cell = &fgb_rwlock.cells[fgb_below(random << 16, fgb_rwlock.locks)];
		bool writes = (random & 0xffff) >= fgb_rwlock.reads_share, timed = counts->ops % run->sample == 0;

		fgb_think(&fgb_rwlock.think, self);
		if (timed)
			asked = fg_cycles_ordered();
		if (writes)
			pthread_rwlock_wrlock(&cell->lock);
		else
			pthread_rwlock_rdlock(&cell->lock);
		if (timed)
			had = fg_cycles_ordered();
		if (writes)
			fgb_rwlock_write(cell);
		else
			fgb_rwlock_read(cell);
		pthread_rwlock_unlock(&cell->lock);
		if (timed)
			fgb_count(counts, asked, had, fg_cycles_ordered());
		else
			fg_store_relaxed(&counts->ops, counts->ops + 1);
		self->scratch[0] += writes;
	}
	fg_fetch_add_relaxed(&fgb_rwlock.writes, self->scratch[0]);
	self->scratch[0] = 0;
}

static int fgb_rwlock_prepare(const struct fgb_run *run)
{
	pthread_rwlockattr_t attr;

	(void)run;
	fgb_rwlock.think.cycles_per_us = fgb_cycles_per_us();
	fgb_rwlock.section_cycles = fgb_us_to_cycles(fgb_rwlock.section_us);
	fgb_rwlock.reads_share = (uint64_t)(fgb_rwlock.reads * 65536 / 100);
	fgb_rwlock.cells = fgb_allocate(fgb_rwlock.locks, sizeof(struct fgb_rwlock_cell));
	if (!fgb_rwlock.cells)
		return FGB_FAILED;
	pthread_rwlockattr_init(&attr);
	if (fgb_rwlock.prefer_writers)
		pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	for (uint64_t i = 0; i < fgb_rwlock.locks; i++)
		pthread_rwlock_init(&fgb_rwlock.cells[i].lock, &attr);
	pthread_rwlockattr_destroy(&attr);
	return 0;
}

static bool fgb_rwlock_adds_up(uint64_t ops)
{
	uint64_t writes = 0;

	for (uint64_t i = 0; i < fgb_rwlock.locks; i++) {
		writes += fgb_rwlock.cells[i].first;
		if (fgb_rwlock.cells[i].first != fgb_rwlock.cells[i].second)
			return false;
	}
	return !fgb_rwlock.torn && writes == fgb_rwlock.writes && writes <= ops;
}

static uint64_t fgb_rwlock_locks(void)
{
	return fgb_rwlock.locks;
}

static void fgb_rwlock_describe(void)
{
	fgb_json_real("reads", fgb_rwlock.reads);
	fgb_json_real("section_us", fgb_rwlock.section_us);
	fgb_json_flag("prefer_writers", fgb_rwlock.prefer_writers);
	fgb_json_count("locks", fgb_rwlock.locks);
	fgb_think_describe(&fgb_rwlock.think);
}

static const struct fgb_option fgb_rwlock_options[] = {
	FGB_OPTION_REAL("--reads", "so many of a hundred operations read, at random", 0, 100, &fgb_rwlock.reads),
	FGB_OPTION_REAL("--section-us", "a section lasts", 0, 1e6, &fgb_rwlock.section_us),
	FGB_THINK_OPTIONS(&fgb_rwlock.think, "between two sections, at random, on average"),
	FGB_OPTION_NUMBER("--lock-count", "locks, of which every operation takes one at random", 1, 1e6,
			  &fgb_rwlock.locks),
	FGB_OPTION_FLAG("--prefer-writers", "the kind that prefers writers", &fgb_rwlock.prefer_writers),
	FGB_OPTIONS_END,
};

static const struct fgb_workload fgb_workload_rwlock = {
	.name = "rwlock",
	.brief = "threads that read and write under a read-write lock",
	.sample = 16,
	.own_loop = true,
	.options = fgb_rwlock_options,
	.prepare = fgb_rwlock_prepare,
	.loop = fgb_rwlock_loop,
	.adds_up = fgb_rwlock_adds_up,
	.locks = fgb_rwlock_locks,
	.describe = fgb_rwlock_describe,
};
