/* SPDX-License-Identifier: MIT */
/* Our functions under names that cannot be interposed, for calls from inside. They take mutexes of any kind. */
#ifndef FGI_INTERPOSE_MUTEX_H
#define FGI_INTERPOSE_MUTEX_H

#include <pthread.h>
#include <stdbool.h>

#include "interpose/glibc_layout.h"
#include "sync/cond.h"

int fgi_mutex_lock(pthread_mutex_t *mutex) __attribute__((visibility("hidden")));
int fgi_mutex_unlock(pthread_mutex_t *mutex) __attribute__((visibility("hidden")));

/* Condition variables of ours, and the mutexes of any kind with which threads wait there. */
static inline struct fgi_cond *fgi_cond_of(pthread_cond_t *cond)
{
	return (struct fgi_cond *)cond;
}
extern const struct fgi_cond_mutexes fgi_pthread_mutexes __attribute__((visibility("hidden")));

/* In the child of a fork without fork handlers: what the lock does there, if it does anything. */
void fgi_mutex_after_bare_fork(void) __attribute__((visibility("hidden")));

/* Is the mutex ours (true) or glibc's? */
static inline bool fgi_mutex_native(const pthread_mutex_t *mutex)
{
	return !((unsigned int)mutex->__data.__kind & ~(FGI_GLIBC_KINDS | FGI_GLIBC_ELISION));
}

#endif
