/* SPDX-License-Identifier: MIT */
/* The futex lock, called instead of inlined: what the call alone costs those peers that cannot inline. */
#define fgi_lock inlined_lock
#define fgi_unlock inlined_unlock
#include "locks/published/futex.inc.h"
#undef fgi_lock
#undef fgi_unlock

__attribute__((noinline)) static void fgi_lock(struct fg_lock *l)
{
	inlined_lock(l);
	fg_compiler_barrier();
}

__attribute__((noinline)) static void fgi_unlock(struct fg_lock *l)
{
	inlined_unlock(l);
	fg_compiler_barrier();
}
