/* SPDX-License-Identifier: MIT */
/* What the slow paths ask of the system. They call no function that another library may replace: such a library may
 * take a lock in its clock_gettime, and would be called by that lock. So system calls are made here, and what the vDSO
 * answers comes from libc itself, by whatever library its name is taken. errno is not touched. */
#ifndef FGI_SYSTEM_H
#define FGI_SYSTEM_H

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
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

static inline bool fgi_is_error(long result)
{
	return (unsigned long)result > -4096ul;
}

/* Zeroed pages; NULL: none. */
static inline void *fgi_system_map(size_t size, int flags)
{
	long at = fgi_system_call(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags,
				  -1, 0);

	return fgi_is_error(at) ? NULL : (void *)at;
}

static inline void fgi_system_unmap(const void *at, size_t size)
{
	(void)fgi_system_call(SYS_munmap, (long)at, (long)size, 0, 0, 0, 0);
}

/* A kernel's set of signals: bit N - 1 is signal N. Unlike libc's functions, these know the two signals by which libc
 * cancels threads and has them change their user. */
#define FGI_SIGNAL(number) (1ul << ((number)-1))
#define FGI_SIGNAL_SETXID FGI_SIGNAL(33)

/* Sets this thread's mask, and returns the one before. */
static inline uint64_t fgi_system_sigmask(uint64_t mask)
{
	uint64_t before = 0;

	(void)fgi_system_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, (long)&before, sizeof(mask), 0, 0);
	return before;
}

static inline uint64_t fgi_system_sigpending(void)
{
	uint64_t pending = 0;

	(void)fgi_system_call(SYS_rt_sigpending, (long)&pending, sizeof(pending), 0, 0, 0, 0);
	return pending;
}

/* What a kernel's struct sigaction begins with. */
struct fgi_disposition {
	uint64_t handler, flags, more[2];
};

static inline bool fgi_system_disposition(int signo, struct fgi_disposition *d)
{
	return fgi_system_call(SYS_rt_sigaction, signo, 0, (long)d, sizeof(uint64_t), 0, 0) == 0;
}

/* The tid of the calling thread, as libc knows it: no system call, which a sandbox may forbid. Async-signal-safe. */
uint32_t fgi_system_tid(void);

#endif
