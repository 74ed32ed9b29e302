/* SPDX-License-Identifier: MIT */
/* ggml's two ways to wait, which ask for advice: the barrier after each node of a graph, and a worker's polls for the
 * next graph. ggml-cpu/ggml-cpu.c includes this before its barrier.
 *
 * A thread is in a section while it computes a graph, except at barriers: the others wait, or will wait at the next
 * barrier, for what it does. Without libflexguard.so.0 ggml spins as it does without this; without a monitor too,
 * unless there are more threads than CPUs: then it yields. */
#ifndef FG_ADVISED_WAIT_H
#define FG_ADVISED_WAIT_H

#include <flexguard/advice_optional.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Polls between two questions about other programs. Fewer than after which each wait is advised to sleep, more than
 * those for which it is advised to spin: in the last of them a sleep says that another program wants this CPU. */
#define FG_POLLS_ASKED 3000u

__attribute__((constructor)) static void fg_ggml_start(void)
{
	(void)fg_advice_start();
}

static __thread int fg_ggml_has_handle;

static inline void fg_ggml_compute(void)
{
	if (!fg_ggml_has_handle)
		(void)fg_thread_handle(); /* so that waiters learn which CPU this thread waits for */
	fg_ggml_has_handle = 1;
	fg_section_begin();
}

/* Threads that sleep at a barrier, of all pools. */
static atomic_int fg_ggml_asleep;

/* A wait for so many threads begins, and nobody waits for this one. */
static inline struct fg_wait fg_ggml_arrive(int others)
{
	struct fg_wait w = {0, (uint32_t)others, 0};

	fg_section_end();
	return w;
}

/* True: it has waited, and looks again. False: the spin hint is the caller's. `passed` is `before` until the last
 * thread arrives. */
static inline bool fg_ggml_wait(struct fg_wait *w, atomic_int *passed, int before)
{
	struct fg_advice a = fg_wait_advice(w);

	w->looks++;
	if (a.action == FG_WAIT_SPIN || a.reason == FG_WHY_UNMONITORED)
		return false;
	if (a.action == FG_WAIT_YIELD) {
		(void)sched_yield();
		return true;
	}
	atomic_fetch_add(&fg_ggml_asleep, 1);
	(void)syscall(SYS_futex, passed, FUTEX_WAIT_PRIVATE, before, NULL, NULL, 0);
	atomic_fetch_sub(&fg_ggml_asleep, 1);
	return true;
}

/* The last thread has arrived, and has said so. */
static inline void fg_ggml_wake(atomic_int *passed)
{
	if (atomic_load(&fg_ggml_asleep))
		(void)syscall(SYS_futex, passed, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* True: the worker, one of so many beside the first thread, is to sleep until it is woken, as after its last poll. A
 * wait that is long, and nothing else, is no reason: how long to poll is a setting of ggml's. */
static inline bool fg_ggml_poll(uint64_t polls, int others)
{
	struct fg_wait w = {0, (uint32_t)others, (uint32_t)(polls % FG_POLLS_ASKED)};
	struct fg_advice a = fg_wait_advice(&w);

	if (a.reason == FG_WHY_UNMONITORED)
		return false;
	if (a.action == FG_WAIT_YIELD && a.reason != FG_WHY_LONG)
		(void)sched_yield();
	return a.action == FG_WAIT_SLEEP;
}

#endif
