/* SPDX-License-Identifier: MIT */
/* Shared-memory access (section 5.2, figures 1 and 2): lock, write to a few cache lines, unlock, wait a little.
 *
 * One lock, or many, each with lines of its own, of which every operation takes one at random. */
#include <inttypes.h>
#include <stdio.h>

static struct {
	uint64_t locks, lines, section_cycles;
	uint64_t lock_space, stride; /* bytes; an object is a lock, then its lines */
	char *objects;
} fgb_shm = {1, 2, 0, 0, 0, NULL};

static struct fgb_line *fgb_shm_lines(uint64_t object)
{
	return (struct fgb_line *)(void *)(fgb_shm.objects + object * fgb_shm.stride + fgb_shm.lock_space);
}

static inline uint64_t fgb_shm_one(struct fgb_thread *self, uint64_t now)
{
	(void)self;
	(void)now;
	return 0;
}

static inline uint64_t fgb_shm_any(struct fgb_thread *self, uint64_t now)
{
	(void)now;
	return fgb_below(fgb_random(&self->random), fgb_shm.locks);
}

static inline struct fg_lock *fgb_shm_lock(uint64_t object)
{
	return (struct fg_lock *)(void *)(fgb_shm.objects + object * fgb_shm.stride);
}

/* Increments every line. The first is read at the beginning and written at the end, so that whoever else is in the
 * section meanwhile leaves a trace: an increment is lost. */
static inline void fgb_shm_section(struct fgb_thread *self, uint64_t object)
{
	struct fgb_line *lines = fgb_shm_lines(object);
	uint64_t first = lines[0].value;

	(void)self;
	fg_compiler_barrier();
	for (uint64_t i = 1; i < fgb_shm.lines; i++)
		lines[i].value++;
	if (fgb_shm.section_cycles)
		fgb_spin(fg_cycles_ordered(), fgb_shm.section_cycles);
	fg_compiler_barrier();
	lines[0].value = first + 1;
}

__attribute__((noinline)) static void fgb_shm_loop(const struct fgb_run *run, uint32_t phase, struct fgb_thread *self)
{
	if (fgb_shm.locks == 1)
		fgb_operate(run, phase, self, false, fgb_shm_one, fgb_shm_lock, fgb_shm_section);
	else
		fgb_operate(run, phase, self, true, fgb_shm_any, fgb_shm_lock, fgb_shm_section);
}

/* The one lock is alone. Many locks are packed as in a program's objects: a line each, the data behind it. */
static int fgb_shm_prepare(void)
{
	uint64_t space = fgb_shm.locks == 1 ? FGB_ALONE : 64;

	fgb_shm.lock_space = (sizeof(struct fg_lock) + space - 1) / space * space;
	fgb_shm.stride = fgb_shm.lock_space + fgb_shm.lines * sizeof(struct fgb_line);
	fgb_shm.objects = (char *)fgb_allocate(fgb_shm.locks, fgb_shm.stride);
	return fgb_shm.objects ? 0 : FGB_FAILED;
}

/* Every line of an object was incremented once per operation on it. */
static bool fgb_shm_adds_up(uint64_t ops)
{
	uint64_t sum = 0;

	for (uint64_t object = 0; object < fgb_shm.locks; object++) {
		const struct fgb_line *lines = fgb_shm_lines(object);

		sum += lines[0].value;
		for (uint64_t i = 1; i < fgb_shm.lines; i++)
			if (lines[i].value != lines[0].value)
				return false;
	}
	return sum == ops;
}

static uint64_t fgb_shm_locks(void)
{
	return fgb_shm.locks;
}

static void fgb_shm_describe(void)
{
	printf("\"section_cycles\":%" PRIu64 ",\"lines\":%" PRIu64 ",\"locks\":%" PRIu64 ",", fgb_shm.section_cycles,
	       fgb_shm.lines, fgb_shm.locks);
}

static const struct fgb_option fgb_shm_options[] = {
	FGB_OPTION_NUMBER("--lines", "cache lines written in a section (2)", 1, 65536, &fgb_shm.lines),
	FGB_OPTION_NUMBER("--section-cycles", "cycles that a section lasts longer (0)", 0, 1e12,
			  &fgb_shm.section_cycles),
	FGB_OPTION_NUMBER("--locks", "locks, of which every operation takes one at random (1)", 1, 1e7, &fgb_shm.locks),
	FGB_OPTIONS_END,
};

static const struct fgb_workload fgb_workload_shm = {
	"shm",
	"shared-memory access: lock, write to a few shared lines, unlock, wait",
	100,
	fgb_shm_options,
	fgb_shm_prepare,
	fgb_shm_loop,
	fgb_shm_adds_up,
	fgb_shm_locks,
	fgb_shm_describe,
};
