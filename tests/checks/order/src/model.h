/* SPDX-License-Identifier: MIT */
/* Between the model (src/lib.rs) and the units of C that it drives. */
#ifndef FGO_MODEL_H
#define FGO_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An object as a test begins. */
struct fgo_setup {
	bool monitored; /* by a monitor that knows nothing, */
	bool asleep;    /* or says that every owner sleeps, */
	bool idle;      /* and that a CPU idles */
	bool real_time; /* all threads are */
	bool hot;
	bool watched;
	bool writers_first; /* of a read-write lock: its kind, */
	bool biased;        /* and readers may enter the table */
};

/* What threads share. */
struct fgo_place {
	void *at;
	size_t size;
};

/* So many tests run at the same time, each with an object of its own. */
#define FGO_OBJECTS 32

/* From now on threads share this variable of the calling thread's, too; and no longer any such variable. */
void fgo_share(void *at, size_t size);
void fgo_unshare(void);

/* No thread of the model has a bucket locked: an execution begins. */
void fgo_inside_none(void);

#endif
