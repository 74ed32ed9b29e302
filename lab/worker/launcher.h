/* SPDX-License-Identifier: MIT */
#ifndef FGB_LAUNCHER_H
#define FGB_LAUNCHER_H

#include <stdbool.h>

#include "worker/status.h"

struct fgb_program {
	const char *lock; /* its name for users; NULL ends the table */
	const char *file; /* the worker that carries it, beside fg-bench */
	const char *kind; /* "libc", "own", "variant", "constant" or "peer" */
	bool needs_slice; /* the kernel's time-slice extension: needs=slice in LOCKS */
};

/* CMake generates the tables. All locks: posix, those of locks/LOCKS in its order, then the peers. */
extern const struct fgb_program fgb_programs[];
extern const char *const fgb_workload_names[];
extern const char *const fgb_pthread_workload_names[]; /* for `posix` alone: workloads/pthread/ */

#endif
