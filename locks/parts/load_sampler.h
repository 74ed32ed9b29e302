/* SPDX-License-Identifier: MIT */
/* A background thread that looks every 100 us how loaded the machine is, for the locks that decide by that (glk,
 * load-control; section 2.2). FlexGuard's own locks have no use for it.
 *
 * What is counted: the threads of the whole machine that run or would like to, from the kernel's /proc/loadavg
 * ("4/143": 4 runnable of 143), against the hardware contexts that this process may use. The papers read the operating
 * system's count of runnable threads as well; this one costs 0.7 us a look through a descriptor that stays open, where
 * /proc/stat costs 4 us and /proc/self/task/ a file for each thread. In a container it still counts the host.
 *
 * The thread is detached, blocks all signals and sleeps while no lock of its kind has been waited for in the last
 * second. It is started by a constructor, since no lock path may allocate, and anew in the child of a fork. It keeps a
 * descriptor open, and its process is never single-threaded to the kernel (unshare and setns refuse some flags). */
#ifndef FGI_LOAD_SAMPLER_H
#define FGI_LOAD_SAMPLER_H

#include <limits.h>
#include <stdint.h>

#include "runtime/atomic.h"

struct fgi_load_sampler {
	/* Called by the thread. `excess`: runnable threads, without the observer, minus hardware contexts; may be
	 * negative. FGI_LOAD_UNKNOWN: it cannot be told (no thread, no /proc, or the program closed the descriptor). */
	void (*observe)(int excess);
	void (*fork_child)(void); /* in the child, before the thread is there again; may be NULL */
	uint32_t wanted;          /* futex; 0: the thread sleeps */
	uint32_t contexts;
	int fd;
	struct fgi_load_sampler *next;
};

#define FGI_LOAD_UNKNOWN INT_MAX
#define FGI_LOAD_SAMPLER_PERIOD_NS 100000u

/* Once for each observer, from a constructor. */
void fgi_load_sampler_start(struct fgi_load_sampler *o);

void fgi_load_sampler_wake(struct fgi_load_sampler *o);

/* By each waiter, on its slow path: somebody cares. */
static inline void fgi_load_sampler_want(struct fgi_load_sampler *o)
{
	if (fg_unlikely(fg_load_relaxed(&o->wanted) == 0))
		fgi_load_sampler_wake(o);
}

#endif
