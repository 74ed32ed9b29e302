/* SPDX-License-Identifier: MIT */
/* For tests that include a source of sync/: a signal handler jumps out of a call after each of its instructions, except
 * where the thread has a bucket locked, or where the test plays another thread. */
#ifndef FG_TESTS_JUMP_H
#define FG_TESTS_JUMP_H

#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>

#include "runtime/cleanup.h"
#include "sync/parked.h"
#include "tests/check.h"

static volatile int traps_left;
static volatile bool is_another; /* this is what another thread does */
static volatile bool covered;    /* the call has its cleanup handler */
static sigjmp_buf back;

static void push(struct _pthread_cleanup_buffer *buffer, void (*run)(void *), void *argument)
{
	_pthread_cleanup_push(buffer, run, argument);
	covered = true;
}

static void pop(struct _pthread_cleanup_buffer *buffer, int execute)
{
	covered = false;
	_pthread_cleanup_pop(buffer, execute);
}

static void on_trap(int number)
{
	if (--traps_left <= 0 && !fgi_parked_is_inside() && !is_another)
		siglongjmp(back, number);
}

/* From here on, in a call of jumps_after, the CPU traps after each instruction. */
static inline void trap(void)
{
	__asm__ volatile("pushfq\n orq $0x100, (%%rsp)\n popfq" ::: "memory", "cc");
}

/* Returns false if the call has not so many instructions. */
static bool jumps_after(int instructions, void (*call)(void))
{
	volatile bool jumped = true;

	covered = is_another = false;
	if (!sigsetjmp(back, 1)) {
		traps_left = instructions;
		call();
		__asm__ volatile("pushfq\n andq $~0x100, (%%rsp)\n popfq" ::: "memory", "cc");
		jumped = false;
	}
	for (unsigned int i = 0; i < FGI_BUCKETS; i++)
		CHECK(!fgi_parked_lists[i].queues, "a node stays after %d instructions", instructions);
	return jumped;
}

/* `check` looks what a jump after so many instructions has left. */
static void jump_everywhere(void (*prepare)(void), void (*call)(void), void (*check)(int instructions))
{
	struct sigaction action = {.sa_handler = on_trap};
	int last = INT_MAX; /* the first call looks for functions */

	CHECK_IS(sigaction(SIGTRAP, &action, NULL), 0);
	for (int n = INT_MAX;; n = n == INT_MAX ? 1 : n + 1) {
		prepare();
		last = n;
		if (jumps_after(n, call))
			check(n);
		else if (n != INT_MAX)
			break;
	}
	CHECK(last > 100, "only %d instructions", last);
}

#define _pthread_cleanup_push push
#define _pthread_cleanup_pop pop

#endif
