/* SPDX-License-Identifier: MIT */
/* Our functions under names that cannot be interposed, for calls from inside. They take mutexes of any kind. */
#ifndef FGI_INTERPOSE_MUTEX_H
#define FGI_INTERPOSE_MUTEX_H

#include <pthread.h>
#include <stdbool.h>

#include "interpose/glibc_layout.h"
#include "interpose/waitq.h"

int fgi_mutex_lock(pthread_mutex_t *mutex) __attribute__((visibility("hidden")));
int fgi_mutex_unlock(pthread_mutex_t *mutex) __attribute__((visibility("hidden")));

/* Of waiters that a signal or broadcast has taken out of their list: they need their mutex before they can go on. If
 * this thread is known to hold it, the unlock grants them, and this returns true: otherwise threads would be woken that
 * have to sleep again at once. */
bool fgi_mutex_grants(struct fgi_waiter *first) __attribute__((visibility("hidden")));

/* A waiter holds its mutex that an unlock has woken, or that comes late: without a grant (M6). Then it is granted. */
void fgi_mutex_arrived(struct fgi_waiter *w) __attribute__((visibility("hidden")));

/* In the child of a fork without fork handlers: what the lock does there, if it does anything. */
void fgi_mutex_after_bare_fork(void) __attribute__((visibility("hidden")));

/* Is the mutex ours (true) or glibc's? */
static inline bool fgi_mutex_native(const pthread_mutex_t *mutex)
{
	return !((unsigned int)mutex->__data.__kind & ~(FGI_GLIBC_KINDS | FGI_GLIBC_ELISION));
}

#endif
