/* SPDX-License-Identifier: MIT */
#ifndef FGB_LAUNCHER_H
#define FGB_LAUNCHER_H

#include "bench/status.h"

struct fgb_program {
	const char *lock; /* its name for users; NULL ends the table */
	const char *file; /* the worker that carries it, beside fg-bench */
};

/* All locks, in the order of locks/LOCKS, then those of bench/locks/. CMake generates the table. */
extern const struct fgb_program fgb_programs[];

#endif
