/* SPDX-License-Identifier: MIT */
/* One lock, and lines that it protects: an update increments each line, a read looks whether all are alike. Both are
 * given to the lock as functions (sections/section.h). */
#include "sections/section.h"
#include "worker/json.h"
#include "worker/random.h"

#ifndef FGB_LOCK_EXECUTES
#ifndef FGB_LOCK_READS
static inline void fgb_execute(struct fg_lock *l, fgb_any_section *section, void *argument)
{
	fgi_lock(l);
	section(argument);
	fgi_unlock(l);
}
#endif
#endif
#ifndef FGB_LOCK_READS
static inline void fgb_read(struct fg_lock *l, fgb_any_section *section, void *argument)
{
	fgb_execute(l, section, argument);
}
#endif

static struct {
	struct fg_lock lock __attribute__((aligned(FGB_ALONE)));
	uint64_t lines, reads, section_cycles, think_cycles;
	uint64_t updates; /* in all */
	uint64_t torn;    /* reads that found lines apart */
	struct fgb_line *line;
} fgb_lines = {.lines = 4, .think_cycles = 100};

static void fgb_lines_update(void *argument)
{
	struct fgb_line *line = argument;
	uint64_t first = fg_load_acquire(&line[0].value);

	FGB_IN_SECTION();
	for (uint64_t i = 1; i < fgb_lines.lines; i++)
		fg_store_release(&line[i].value, fg_load_acquire(&line[i].value) + 1);
	if (fgb_lines.section_cycles)
		fgb_spin(fg_cycles_ordered(), fgb_lines.section_cycles);
	fg_store_release(&line[0].value, first + 1);
}

struct fgb_lines_found {
	struct fgb_line *line;
	bool torn;
};

static void fgb_lines_read(void *argument)
{
	struct fgb_lines_found *found = argument;
	uint64_t first = fg_load_acquire(&found->line[0].value);

	FGB_IN_SECTION();
	if (fgb_lines.section_cycles)
		fgb_spin(fg_cycles_ordered(), fgb_lines.section_cycles);
	found->torn = false;
	for (uint64_t i = 1; i < fgb_lines.lines; i++)
		found->torn |= fg_load_acquire(&found->line[i].value) != first;
}

/* The wait of an operation lasts until it is over: the thread that asked may not be the one that executes. */
__attribute__((noinline)) static void fgb_lines_loop(const struct fgb_run *run, uint32_t phase, struct fgb_thread *self)
{
	struct fgb_lines_found found = {fgb_lines.line, false};
	uint64_t updates = 0, torn = 0;

	while (fg_load_relaxed(&run->phase) == phase) {
		bool reads = fgb_below(fgb_random(&self->random), 100) < fgb_lines.reads;
		uint64_t asked = fg_cycles_ordered(), over;

		if (reads)
			fgb_read(&fgb_lines.lock, fgb_lines_read, &found);
		else
			fgb_execute(&fgb_lines.lock, fgb_lines_update, fgb_lines.line);
		over = fg_cycles_ordered();
		torn += reads && found.torn;
		updates += !reads;
		fgb_count(&self->counts[phase], asked, over, over);
		fgb_spin(over, fgb_lines.think_cycles);
	}
	fg_fetch_add_relaxed(&fgb_lines.updates, updates);
	fg_fetch_add_relaxed(&fgb_lines.torn, torn);
}

static int fgb_lines_prepare(const struct fgb_run *run)
{
	(void)run;
	fgb_lines.line = fgb_allocate(fgb_lines.lines, sizeof(struct fgb_line));
	return fgb_lines.line ? 0 : FGB_FAILED;
}

static bool fgb_lines_adds_up(uint64_t ops)
{
	for (uint64_t i = 0; i < fgb_lines.lines; i++)
		if (fgb_lines.line[i].value != fgb_lines.updates)
			return false;
	return !fgb_lines.torn && fgb_lines.updates <= ops;
}

static uint64_t fgb_lines_locks(void)
{
	return 1;
}

static void fgb_lines_describe(void)
{
	fgb_json_count("data_lines", fgb_lines.lines);
	fgb_json_count("reads", fgb_lines.reads);
	fgb_json_count("section_cycles", fgb_lines.section_cycles);
	fgb_json_count("think_cycles", fgb_lines.think_cycles);
}

static const struct fgb_option fgb_lines_options[] = {
	FGB_OPTION_NUMBER("--data-lines", "cache lines that the lock protects", 1, 65536, &fgb_lines.lines),
	FGB_OPTION_NUMBER("--reads", "so many of a hundred operations read, at random", 0, 100, &fgb_lines.reads),
	FGB_OPTION_NUMBER("--section-cycles", "cycles that a section lasts longer", 0, 1e12, &fgb_lines.section_cycles),
	FGB_OPTION_NUMBER("--think-cycles", "cycles between two operations", 0, 1e12, &fgb_lines.think_cycles),
	FGB_OPTIONS_END,
};

static const struct fgb_workload fgb_workload_lines = {
	.name = "lines",
	.brief = "sections that are given to the lock as functions: they update or read a few lines",
	.sample = 1,
	.own_loop = true,
	.options = fgb_lines_options,
	.prepare = fgb_lines_prepare,
	.loop = fgb_lines_loop,
	.adds_up = fgb_lines_adds_up,
	.locks = fgb_lines_locks,
	.describe = fgb_lines_describe,
};
