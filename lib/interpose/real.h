/* SPDX-License-Identifier: MIT */
/* What is behind our functions: glibc's, and what was found out about its objects. */
#ifndef FGI_INTERPOSE_REAL_H
#define FGI_INTERPOSE_REAL_H

#include <pthread.h>
#include <semaphore.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "runtime/atomic.h"

/* No header declares it. pthread_atfork is a static function in front of it, linked into each object; `object` is that
 * object's handle, for dlclose. */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *object);

struct fgi_real {
#define INTERPOSED(field, symbol, version) __typeof__(symbol) *field;
#define EXPORTED(symbol)
/* bool: glibc's objects are as interpose/glibc_layout.h says; otherwise they all pass through */
#define UNDERSTOOD(family, field) uint32_t family##_understood;
#include "interpose/functions.def"
#undef INTERPOSED
#undef EXPORTED
#undef UNDERSTOOD
	uint32_t cond_flags_at; /* where a condition variable has its flag word; 0: not understood */
};

extern struct fgi_real fgi_real_table;
extern int fgi_real_found;

void fgi_real_find(void);

/* A constructor fills the table. Constructors of other libraries, or an allocator, may call before it runs: then the
 * table is filled here. acquire: pairs with the release at the end of fgi_real_find. */
static inline const struct fgi_real *fgi_real(void)
{
	if (fg_unlikely(!fg_load_acquire(&fgi_real_found)))
		fgi_real_find();
	return &fgi_real_table;
}

#endif
