/* SPDX-License-Identifier: MIT */
#include "interpose/real.h"

#include <dlfcn.h>

#include "interpose/glibc_layout.h"

struct fgi_real fgi_real_table;
int fgi_real_found;

/* Several threads may run it at once, and a thread may run it again: all store the same values.
 *
 * RTLD_NEXT means "after the object that calls", so the call is never in tail position, where another object would seem
 * to be the caller. The exact version is given, since a search without one finds the oldest of several functions in a
 * glibc before 2.36. */
void fgi_real_find(void)
{
#define INTERPOSED(field, symbol, version)                                                                             \
	fg_store_relaxed(&fgi_real_table.field, (__typeof__(fgi_real_table.field))dlvsym(RTLD_NEXT, #symbol, version));
#define EXPORTED(symbol)
#define UNDERSTOOD(family, field)                                                                                      \
	fg_store_relaxed(&fgi_real_table.family##_understood, fgi_glibc_knows_##family(fgi_real_table.field));
#include "interpose/functions.def"
#undef INTERPOSED
#undef EXPORTED
#undef UNDERSTOOD
	fg_store_relaxed(&fgi_real_table.cond_flags_at, fgi_glibc_find_cond_flags(fgi_real_table.cond_init));
	fg_store_release(&fgi_real_found, 1); /* pairs with fgi_real */
}

__attribute__((constructor)) static void real_start(void)
{
	(void)fgi_real();
}
