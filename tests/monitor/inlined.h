/* SPDX-License-Identifier: MIT */
/* The inlined C API, dressed as a lock's file for victim.c. */
#ifndef FG_TESTS_INLINED_H
#define FG_TESTS_INLINED_H

#include <stdbool.h>

#include "flexguard/inline.h"
#include "runtime/deadline.h"

struct fg_lock {
	struct fg_mutex mutex;
};

static inline void fgi_lock(struct fg_lock *l)
{
	fg_mutex_lock(&l->mutex);
}

static inline bool fgi_trylock(struct fg_lock *l)
{
	return fg_mutex_trylock(&l->mutex) == 0;
}

static inline int fgi_timedlock(struct fg_lock *l, struct fgi_deadline until)
{
	return fg_mutex_timedlock(&l->mutex, until.clock, until.time);
}

static inline void fgi_unlock(struct fg_lock *l)
{
	fg_mutex_unlock(&l->mutex);
}

#endif
