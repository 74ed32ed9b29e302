/* SPDX-License-Identifier: MIT */
/* The C library's mutex, or whatever LD_PRELOAD puts in its place.
 *
 * An adapter has the interface of a lock file as far as fg-bench calls it: struct fg_lock, all-zero being unlocked,
 * fgi_lock and fgi_unlock. */
#include <pthread.h>

struct fg_lock {
	pthread_mutex_t mutex; /* PTHREAD_MUTEX_INITIALIZER is all-zero */
};

static inline void fgi_lock(struct fg_lock *l)
{
	pthread_mutex_lock(&l->mutex);
}

static inline void fgi_unlock(struct fg_lock *l)
{
	pthread_mutex_unlock(&l->mutex);
}
