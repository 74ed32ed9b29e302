/* SPDX-License-Identifier: MIT */
/* After how much virtual and host time a run that does not end is ended, with an error. */
#ifndef FGS_LIMITS_H
#define FGS_LIMITS_H

#define FGS_STUCK 4 /* the worker's exit status where a thread never gets the lock */

extern struct fgs_limits {
	double virtual_seconds, host_seconds;
} fgs_limits;

#endif
