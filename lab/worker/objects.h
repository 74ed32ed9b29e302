/* SPDX-License-Identifier: MIT */
/* Locks and the data that they protect, for a workload: an object is a lock, then its lines. Included by a workload,
 * so that everything here is compiled around one lock and inlines. */
#ifndef FGB_OBJECTS_H
#define FGB_OBJECTS_H

#include "worker/bench.h"

struct fgb_objects {
	uint64_t locks, lines;       /* how many locks; how many lines each protects */
	uint64_t lock_space, stride; /* bytes: of the lock with its padding, of an object */
	char *memory;
};

/* The one lock is alone. Many locks are packed as in a program's objects: a line each, the data behind it. Returns 0,
 * or FGB_FAILED after a message. */
static int fgb_objects_make(struct fgb_objects *o)
{
	uint64_t space = o->locks == 1 ? FGB_ALONE : 64;

	o->lock_space = (sizeof(struct fg_lock) + space - 1) / space * space;
	o->stride = o->lock_space + o->lines * sizeof(struct fgb_line);
	o->memory = (char *)fgb_allocate(o->locks, o->stride);
	return o->memory ? 0 : FGB_FAILED;
}

static inline struct fg_lock *fgb_object_lock(const struct fgb_objects *o, uint64_t object)
{
	return (struct fg_lock *)(void *)(o->memory + object * o->stride);
}

static inline struct fgb_line *fgb_object_lines(const struct fgb_objects *o, uint64_t object)
{
	return (struct fgb_line *)(void *)(o->memory + object * o->stride + o->lock_space);
}

static inline uint64_t fgb_object_any(const struct fgb_objects *o, struct fgb_thread *self)
{
	return o->locks == 1 ? 0 : fgb_below(fgb_random(&self->random), o->locks);
}

/* A section increments every line of its object. It reads the first line at its beginning and writes it at its end, so
 * that a second thread in the section leaves a trace: an increment is lost. */
static inline uint64_t fgb_object_enter(const struct fgb_objects *o, uint64_t object)
{
	struct fgb_line *lines = fgb_object_lines(o, object);
	uint64_t first = lines[0].value;

	fg_compiler_barrier();
	for (uint64_t i = 1; i < o->lines; i++)
		lines[i].value++;
	return first;
}

static inline void fgb_object_leave(const struct fgb_objects *o, uint64_t object, uint64_t first)
{
	fg_compiler_barrier();
	fgb_object_lines(o, object)[0].value = first + 1;
}

/* Was every line of an object incremented once by each section on it, and were there `ops` sections? */
static bool fgb_objects_add_up(const struct fgb_objects *o, uint64_t ops)
{
	uint64_t sum = 0;

	for (uint64_t object = 0; object < o->locks; object++) {
		const struct fgb_line *lines = fgb_object_lines(o, object);

		sum += lines[0].value;
		for (uint64_t i = 1; i < o->lines; i++)
			if (lines[i].value != lines[0].value)
				return false;
	}
	return sum == ops;
}

#endif
