/* SPDX-License-Identifier: MIT */
/* Seccomp filters that were there before the program. A filter may kill for a call, so a process that was put into a
 * sandbox makes none that it would not make without FlexGuard: it stays without a monitor, and its locks go without
 * what is a matter of speed only.
 *
 * A container has a filter, too. What is no sandbox is said by FLEXGUARD_FILTERS: so many filters are as they should
 * be. `flexguard run` sets it to the number that it has itself; without the variable it is 1. With FLEXGUARD_REQUIRE=1
 * no process counts as in a sandbox. */
#ifndef FGI_SANDBOX_H
#define FGI_SANDBOX_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/atomic.h"
#include "runtime/system.h"

#define FGI_FILTERS_ENV "FLEXGUARD_FILTERS"
#define FGI_FILTERS_OF_CONTAINER 1

/* Looks once. Opens /proc/self/status, as the dynamic linker opens libraries: nothing else that tells is sure to be
 * allowed. Where there is no /proc, or it may not be read, the process counts as in a sandbox. */
bool fgi_sandbox_look(void);

extern uint32_t fgi_sandboxed;

/* Not 0: the program is about to put itself into a sandbox, or has done so, as an interposer sees (interpose/prctl.c).
 * From then on sched_yield is the system call, all waiting for semaphores is glibc's, and nobody asks whether a thread
 * has ended. */
extern uint32_t fgi_enters_sandbox;

/* A system call that can be left out: -ENOSYS in a sandbox. */
static inline long fgi_optional_call(long number, long a, long b, long c)
{
	return fg_unlikely(fg_load_relaxed(&fgi_sandboxed)) ? -ENOSYS : fgi_system_call(number, a, b, c, 0, 0, 0);
}

static inline void fgi_system_yield(void)
{
	(void)fgi_optional_call(SYS_sched_yield, 0, 0, 0);
}

#endif
