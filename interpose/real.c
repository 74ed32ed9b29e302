/* SPDX-License-Identifier: MIT */
#include "interpose/real.h"

#include <dlfcn.h>

#include "interpose/glibc_layout.h"

struct fgi_real fgi_real_table;
int fgi_real_found;

/* RTLD_NEXT means "after the object that calls": never in tail position, where the caller would seem to be ours. The
 * exact version, because an unversioned search finds the oldest of several functions in a glibc before 2.36. */
#define FIND_AS(field, name, version)                                                                                  \
	fg_store_relaxed(&fgi_real_table.field, (__typeof__(fgi_real_table.field))dlvsym(RTLD_NEXT, name, version))
#define FIND(field, version) FIND_AS(field, "pthread_" #field, version)

/* May run in several threads at once and in a thread a second time: all store the same. */
void fgi_real_find(void)
{
	FIND(mutex_init, FGI_GLIBC_BASE);
	FIND(mutex_destroy, FGI_GLIBC_BASE);
	FIND(mutex_lock, FGI_GLIBC_BASE);
	FIND(mutex_trylock, FGI_GLIBC_BASE);
	FIND(mutex_timedlock, FGI_GLIBC_BASE);
	FIND(mutex_clocklock, FGI_GLIBC_CLOCK);
	FIND(mutex_unlock, FGI_GLIBC_BASE);
	FIND(mutex_consistent, FGI_GLIBC_ROBUST);
	FIND(mutex_getprioceiling, FGI_GLIBC_CEILING);
	FIND(mutex_setprioceiling, FGI_GLIBC_CEILING);
	FIND(cond_init, FGI_GLIBC_COND);
	FIND(cond_destroy, FGI_GLIBC_COND);
	FIND(cond_wait, FGI_GLIBC_COND);
	FIND(cond_timedwait, FGI_GLIBC_COND);
	FIND(cond_clockwait, FGI_GLIBC_CLOCK);
	FIND(cond_signal, FGI_GLIBC_COND);
	FIND(cond_broadcast, FGI_GLIBC_COND);
	fg_store_relaxed(&fgi_real_table.cond_flags_at, fgi_glibc_find_cond_flags(fgi_real_table.cond_init));
	FIND_AS(register_atfork, "__register_atfork", FGI_GLIBC_ATFORK);
	fg_store_release(&fgi_real_found, 1); /* pairs with fgi_real */
}

__attribute__((constructor)) static void real_start(void)
{
	(void)fgi_real();
}
