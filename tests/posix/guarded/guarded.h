/* SPDX-License-Identifier: MIT */
/* A library that guards its state through forks, as allocators and databases do: it registers handlers in its
 * constructor, before any interposer's. */
#ifndef FG_TESTS_POSIX_GUARDED_H
#define FG_TESTS_POSIX_GUARDED_H

#include <pthread.h>

/* What its handlers do. */
enum guard {
	IGNORE,       /* nothing */
	UNLOCK,       /* lock before the fork, unlock after it */
	UNLOCK_TWICE, /* and in the child lock and unlock again */
	RENEW,        /* lock before, unlock in the parent, initialise anew in the child and use it */
	WAIT,         /* as UNLOCK, and in the child wait for a condition that only dead threads knew of */
};

extern enum guard guard;
extern pthread_mutex_t guarded;
extern pthread_cond_t changed;
extern int handled; /* how often the child's handler ran to its end */

#endif
