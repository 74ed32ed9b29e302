/* SPDX-License-Identifier: MIT */
/* The calling thread's time slice, as a program may ask the scheduler for (Linux 6.12: sched_setattr). */
#ifndef FGB_SLICE_H
#define FGB_SLICE_H

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

struct fgb_sched_attr { /* the kernel's struct sched_attr, which not every libc declares */
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

/* 0, or an errno: ENOTSUP if the kernel, an older one, took no notice. The thread keeps its nice level. */
static inline int fgb_set_slice(uint64_t us)
{
	struct fgb_sched_attr attr = {.size = sizeof(attr), .policy = SCHED_OTHER}, set = {0};

	attr.nice = getpriority(PRIO_PROCESS, (id_t)gettid());
	attr.runtime = us * 1000;
	if (syscall(SYS_sched_setattr, 0, &attr, 0) || syscall(SYS_sched_getattr, 0, &set, sizeof(set), 0))
		return errno;
	return set.runtime == attr.runtime ? 0 : ENOTSUP;
}

#endif
