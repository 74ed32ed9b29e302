/* SPDX-License-Identifier: MIT */
#ifndef FGB_STATUS_H
#define FGB_STATUS_H

/* Exit statuses of fg-bench, 0 being success. */
enum {
	FGB_FAILED = 1,       /* the system refused something */
	FGB_USAGE = 2,        /* the command line is wrong */
	FGB_VIOLATED = 3,     /* the lock let two threads in */
	FGB_STUCK = 4,        /* a thread never got the lock */
	FGB_UNAVAILABLE = 77, /* this machine cannot run the lock */
};

#endif
