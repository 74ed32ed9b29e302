/* SPDX-License-Identifier: MIT */
#include "interpose/real.h"

#include <dlfcn.h>
#include <stdbool.h>

#include "interpose/glibc_layout.h"
#include "runtime/system.h"

struct fgi_real fgi_real_table;
int fgi_real_found;

#define EXPORTED(symbol)

static void take_libcs(void)
{
#define INTERPOSED(field, symbol, version)                                                                             \
	fg_store_relaxed(&fgi_real_table.field, (__typeof__(fgi_real_table.field))fgi_libc_function(#symbol, version));
#define UNDERSTOOD(family, field)
#include "interpose/functions.def"
#undef INTERPOSED
#undef UNDERSTOOD
}

static void try_layouts(void)
{
#define INTERPOSED(field, symbol, version)
#define UNDERSTOOD(family, field)                                                                                      \
	fg_store_relaxed(&fgi_real_table.family##_understood,                                                          \
			 fgi_real_table.field &&fgi_glibc_knows_##family(fgi_real_table.field));
#include "interpose/functions.def"
#undef INTERPOSED
#undef UNDERSTOOD
	if (fgi_real_table.cond_init)
		fg_store_relaxed(&fgi_real_table.cond_flags_at, fgi_glibc_find_cond_flags(fgi_real_table.cond_init));
}

/* RTLD_NEXT means "after the object that calls", so the call is never in tail position, where another object would seem
 * to be the caller. The exact version is given, since a search without one finds the oldest of several functions in a
 * glibc before 2.36. */
static void take_next(void)
{
#define INTERPOSED(field, symbol, version)                                                                             \
	fg_store_relaxed(&fgi_real_table.field,                                                                        \
			 (__typeof__(fgi_real_table.field))(dlvsym(RTLD_NEXT, #symbol, version)                        \
								    ?: (void *)fgi_real_table.field));
#define UNDERSTOOD(family, field)
#include "interpose/functions.def"
#undef INTERPOSED
#undef UNDERSTOOD
}
#undef EXPORTED

/* Several threads may run it at once: all store the same values.
 *
 * Any library may be between us and glibc, and call back whenever it is called, even by a look-up. So the table is
 * first made of glibc's own functions, without a call of any other, and the layouts are tried on them. Then each
 * function is replaced by the one that comes next: that is what a program expects of libraries that wrap functions. A
 * call that comes back meanwhile takes the table as it is. */
void fgi_real_find(void)
{
	static __thread bool finding __attribute__((tls_model("initial-exec")));

	if (finding)
		return;
	finding = true;
	take_libcs();
	try_layouts();
	take_next();
	fg_store_release(&fgi_real_found, 1); /* pairs with fgi_real */
	finding = false;
}

__attribute__((constructor)) static void real_start(void)
{
	(void)fgi_real();
}
