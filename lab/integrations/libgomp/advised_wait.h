/* SPDX-License-Identifier: MIT */
/* libgomp's two ways to wait, which ask for advice. config/linux/wait.h includes this at its end; all of libgomp waits
 * by these two: barriers, the dock of a pool's threads, locks, semaphores.
 *
 * A thread is in a section from the end of each wait to the begin of its next: others of its team wait, or will wait at
 * the next barrier, for what it does. Without libflexguard.so.0 libgomp spins as it does without this; without
 * a monitor too, unless there are more threads than CPUs: then it yields. */
#ifndef FG_ADVISED_WAIT_H
#define FG_ADVISED_WAIT_H

#include <flexguard/advice_optional.h>

/* Time that a yield takes, in spins: the spin count keeps its meaning. */
#define FG_GOMP_SPINS_PER_YIELD 16

extern __thread int fg_gomp_in_section __attribute__((visibility("hidden")));
extern __thread int fg_gomp_has_handle __attribute__((visibility("hidden")));

static inline void fg_gomp_leave(void)
{
	if (fg_gomp_in_section)
		fg_section_end();
	fg_gomp_in_section = 0;
}

static inline void fg_gomp_enter(void)
{
	if (!fg_gomp_has_handle)
		(void)fg_thread_handle(); /* so that waiters learn which CPU this thread waits for */
	fg_gomp_has_handle = 1;
	fg_section_begin();
	fg_gomp_in_section = 1;
}

/* As do_spin: 0 once the word is another one; 1 when the thread is to sleep until it is woken. */
static inline int fg_gomp_spin(int *addr, int val)
{
	unsigned long long i, count = gomp_spin_count_var;
	unsigned long threads = *(volatile unsigned long *)&gomp_managed_threads;
	struct fg_wait w = {0};
	struct fg_advice a;

	if (threads > gomp_available_cpus)
		count = gomp_throttled_spin_count_var;
	w.number = threads ? (uint32_t)threads - 1 : 0;
	for (i = 0; i < count; i++, w.looks++) {
		if (*(volatile int *)addr != val)
			return 0;
		a = fg_wait_advice(&w);
		if (a.reason == FG_WHY_UNMONITORED)
			return do_spin(addr, val);
		if (a.action == FG_WAIT_SLEEP)
			return 1;
		if (a.action == FG_WAIT_SPIN) {
			cpu_relax();
			continue;
		}
		(void)sched_yield();
		i += FG_GOMP_SPINS_PER_YIELD - 1;
	}
	return 1;
}

static inline void fg_gomp_wait(int *addr, int val)
{
	fg_gomp_leave();
	if (fg_gomp_spin(addr, val))
		futex_wait(addr, val);
	fg_gomp_enter();
}

#define do_spin fg_gomp_spin
#define do_wait fg_gomp_wait

#endif
