/* SPDX-License-Identifier: MIT */
/* A background thread that samples every 100 us how loaded the machine is, for the locks that decide by that (glk,
 * load-control; section 2.2). FlexGuard's own locks have no use for it.
 *
 * It counts the threads of the whole machine that run or would like to, by the kernel's /proc/loadavg ("4/143": 4
 * runnable of 143), against the hardware contexts that this process may use. The papers read the operating system's
 * count of runnable threads, too. A sample costs 0.7 us through a descriptor that stays open; /proc/stat would cost 4
 * us and /proc/self/task/ a file for each thread. In a container it still counts the host's threads.
 *
 * The thread is detached, blocks all signals, and sleeps while no thread has waited for a lock of its kind for a
 * second. A constructor starts it, since no lock path may allocate, and the child of a fork starts it anew. It keeps a
 * descriptor open, and the kernel never sees its process as single-threaded (unshare and setns refuse some flags). */
#ifndef FGI_PARTS_LOAD_SAMPLER_H
#define FGI_PARTS_LOAD_SAMPLER_H

#include <limits.h>
#include <stdint.h>

#include "runtime/atomic.h"

struct fgi_load_sampler {
	/* The thread calls it with each sample. `excess`: runnable threads, without the sampler, minus hardware
	 * contexts; may be negative. FGI_LOAD_UNKNOWN: there is no thread, no /proc, or the program closed the
	 * descriptor. */
	void (*on_sample)(int excess);
	void (*fork_child)(void); /* in the child, before the thread is started anew; may be NULL */
	uint32_t wanted;          /* futex; 0: the thread sleeps */
	uint32_t contexts;
	int fd;
	struct fgi_load_sampler *next;
};

#define FGI_LOAD_UNKNOWN INT_MAX
#define FGI_LOAD_SAMPLER_PERIOD_NS 100000u /* glk's and load control's authors: docs/design/locks.md */

/* Once for each sampler, from a constructor. */
void fgi_load_sampler_start(struct fgi_load_sampler *s);

/* In the child of a fork that runs no handlers (_Fork), where no thread may be started: the load is unknown there. */
void fgi_load_sampler_after_bare_fork(void);

void fgi_load_sampler_wake(struct fgi_load_sampler *s);

/* Each waiter calls it on its slow path: it keeps the thread awake. */
static inline void fgi_load_sampler_want(struct fgi_load_sampler *s)
{
	if (fg_unlikely(fg_load_relaxed(&s->wanted) == 0))
		fgi_load_sampler_wake(s);
}

#endif
