/* SPDX-License-Identifier: MIT */
/* In place of lib/runtime/system.c, which goes past libc to the kernel: here, too, the simulator answers. */
#include "runtime/system.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "simulator/calls.h"

/* The linker makes these the simulator's (CMakeLists.txt). */
struct fgi_libc fgi_libc = {clock_gettime, getcpu, sched_getcpu};

void *fgi_libc_function(const char *name, const char *version)
{
	(void)name, (void)version;
	return NULL;
}

uint32_t fgi_system_tid(void)
{
	return (uint32_t)gettid();
}

static long answer(long number, long a, long b, long c, long d, long e, long f)
{
	switch (number) {
	case SYS_sched_yield:
		return sched_yield();
	case SYS_mmap:
		return (long)mmap((void *)a, (size_t)b, (int)c, (int)d, (int)e, f);
	case SYS_munmap:
		return munmap((void *)a, (size_t)b);
	default:
		return syscall(number, a, b, c, d, e, f);
	}
}

long fgs_system_call(long number, long a, long b, long c, long d, long e, long f)
{
	int before = errno;
	long result = answer(number, a, b, c, d, e, f);

	if (result == -1)
		result = -errno;
	errno = before;
	return result;
}
