/* SPDX-License-Identifier: MIT */
/* A process-shared condition variable, glibc's, that is waited on with a mutex of ours. glibc gets a mutex of its own
 * for the wait: the bridge. See "Process-shared" in docs/design/interposer.md. */
#ifndef FGI_INTERPOSE_BRIDGE_H
#define FGI_INTERPOSE_BRIDGE_H

#include <pthread.h>

#define FGI_OWN_CLOCK ((clockid_t)-1) /* the condition variable's own */

/* As pthread_cond_clockwait; abs NULL: without a deadline. */
int fgi_bridge_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *abs);

/* To be called before glibc is told to signal: every waiter of this process that has unlocked its mutex is one that
 * glibc knows when this returns. */
void fgi_bridge_pass(void);

#endif
