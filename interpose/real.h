/* SPDX-License-Identifier: MIT */
/* The functions behind ours: glibc's. */
#ifndef FGI_INTERPOSE_REAL_H
#define FGI_INTERPOSE_REAL_H

#include <pthread.h>

#include "runtime/atomic.h"

struct fgi_real {
	__typeof__(pthread_mutex_init) *mutex_init;
	__typeof__(pthread_mutex_destroy) *mutex_destroy;
	__typeof__(pthread_mutex_lock) *mutex_lock;
	__typeof__(pthread_mutex_trylock) *mutex_trylock;
	__typeof__(pthread_mutex_timedlock) *mutex_timedlock;
	__typeof__(pthread_mutex_clocklock) *mutex_clocklock;
	__typeof__(pthread_mutex_unlock) *mutex_unlock;
	__typeof__(pthread_mutex_consistent) *mutex_consistent;
	__typeof__(pthread_mutex_getprioceiling) *mutex_getprioceiling;
	__typeof__(pthread_mutex_setprioceiling) *mutex_setprioceiling;
	__typeof__(pthread_cond_init) *cond_init;
	__typeof__(pthread_cond_destroy) *cond_destroy;
	__typeof__(pthread_cond_wait) *cond_wait;
	__typeof__(pthread_cond_timedwait) *cond_timedwait;
	__typeof__(pthread_cond_clockwait) *cond_clockwait;
	__typeof__(pthread_cond_signal) *cond_signal;
	__typeof__(pthread_cond_broadcast) *cond_broadcast;
	uint32_t cond_flags_at; /* where a condition variable has its flag word; 0: not understood */
	int (*register_atfork)(void (*)(void), void (*)(void), void (*)(void), void *);
};

extern struct fgi_real fgi_real_table;
extern int fgi_real_found;

void fgi_real_find(void);

/* A constructor fills the table; who comes before it (constructors of other libraries, an allocator) fills it here.
 * acquire: pairs with the release at the end of fgi_real_find. */
static inline const struct fgi_real *fgi_real(void)
{
	if (fg_unlikely(!fg_load_acquire(&fgi_real_found)))
		fgi_real_find();
	return &fgi_real_table;
}

#endif
