/* SPDX-License-Identifier: MIT */
/* pthread's mutexes, dressed as a lock's file for victim.c, which runs under an interposer as it is shipped. */
#ifndef FG_TESTS_INTERPOSED_H
#define FG_TESTS_INTERPOSED_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "lock/lock.h"

#define FG_INTERPOSED

struct fg_lock {
	pthread_mutex_t mutex; /* the interposer's lock is at its end (interpose/mutex.c) */
};

static inline void fgi_lock(struct fg_lock *l)
{
	pthread_mutex_lock(&l->mutex);
}

static inline bool fgi_trylock(struct fg_lock *l)
{
	return pthread_mutex_trylock(&l->mutex) == 0;
}

static inline int fgi_timedlock(struct fg_lock *l, struct fgi_deadline until)
{
	return pthread_mutex_clocklock(&l->mutex, until.clock, until.time);
}

static inline void fgi_unlock(struct fg_lock *l)
{
	pthread_mutex_unlock(&l->mutex);
}

#endif
