/* SPDX-License-Identifier: MIT */
/* What the slow paths ask of the system. They call no function that another library may replace: such a library may
 * take a lock in its clock_gettime, and would be called by that lock. So system calls are made here, and what the vDSO
 * answers comes from libc itself, by whatever library its name is taken. errno is not touched. */
#ifndef FGI_SYSTEM_H
#define FGI_SYSTEM_H

#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>

#include "runtime/arch/arch.h"
#include "runtime/atomic.h"

/* The function of that name and version which libc has; NULL: not found, as in a static program. For functions only.
 * Calls nothing. */
void *fgi_libc_function(const char *name, const char *version);

/* libc's own. Each finds itself at its first call. */
struct fgi_libc {
	__typeof__(clock_gettime) *clock_gettime;
	__typeof__(getcpu) *getcpu;
	__typeof__(sched_getcpu) *sched_getcpu;
};
extern struct fgi_libc fgi_libc __attribute__((visibility("hidden")));

/* Fails only for clocks and pointers that no caller has. */
static inline void fgi_clock_read(clockid_t clock, struct timespec *t)
{
	fg_load_relaxed (&fgi_libc.clock_gettime)(clock, t);
}

static inline void fgi_cpu_read(unsigned int *cpu, unsigned int *node)
{
	__typeof__(getcpu) *read = fg_load_relaxed(&fgi_libc.getcpu);

	read(cpu, node);
}

static inline uint32_t fgi_cpu_number(void)
{
	__typeof__(sched_getcpu) *number = fg_load_relaxed(&fgi_libc.sched_getcpu);

	return (uint32_t)number();
}

/* The tid of the calling thread, as libc knows it: no system call, which a sandbox may forbid. Async-signal-safe. */
uint32_t fgi_system_tid(void);

#endif
