/* SPDX-License-Identifier: MIT */
/* What signal handlers want while their thread has a bucket locked is done afterwards (sync/parked.h, P7): one of them
 * interrupts another, or the thread that unlocks, after each instruction; and more than the thread keeps. */
#include "sync/parked.c"

#include <signal.h>
#include <string.h>
#include <ucontext.h>

#include "tests/check.h"

static const char object;
static int runs[3], runs_of_all;

static void count(void *which)
{
	runs[*(const int *)which]++;
}

static void count_all(void)
{
	runs_of_all++;
}

static const int numbers[3] = {0, 1, 2};

/* As a handler does: at once, or later. */
static void wants(int which)
{
	if (!fgi_parked_postpone(count, (void *)(uintptr_t)&numbers[which], count_all))
		count((void *)(uintptr_t)&numbers[which]);
}

static void check_runs(int first, int second, int third)
{
	CHECK_IS(runs[0], first);
	CHECK_IS(runs[1], second);
	CHECK_IS(runs[2], third);
	CHECK_IS(runs_of_all, 0);
	memset(runs, 0, sizeof(runs));
	for (int i = 0; i < POSTS; i++)
		CHECK_IS(posts[i].state, EMPTY);
}

static void more_than_it_keeps(void)
{
	struct fgi_parked_list *list = fgi_parked_lock(&object);

	for (int i = 0; i < POSTS; i++)
		wants(0);
	fgi_parked_unlock(list);
	check_runs(POSTS, 0, 0);
	list = fgi_parked_lock(&object);
	for (int i = 0; i <= POSTS; i++)
		wants(0);
	CHECK_IS(runs[0] + runs_of_all, 0);
	fgi_parked_unlock(list);
	CHECK_IS(runs[0], POSTS);
	CHECK_IS(runs_of_all, 1);
	runs[0] = runs_of_all = 0;
}

/* A handler that may lock a bucket, and is in the middle of that when the next one interrupts it. */
static void locks_and_is_interrupted(void)
{
	bool may = !inside;
	struct fgi_parked_list *list = may ? fgi_parked_lock(&object) : NULL;

	wants(1);
	wants(2);
	if (may)
		fgi_parked_unlock(list);
}

#ifdef __x86_64__
static int traps_left;

static void on_trap(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info;
	if (--traps_left == 0)
		locks_and_is_interrupted();
	if (traps_left <= 0)
		((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)0x100;
}

/* What handlers want, with the next one after `n` instructions. False: there are not so many. */
static bool interrupted(int n)
{
	struct fgi_parked_list *list = fgi_parked_lock(&object);

	traps_left = n;
	__asm__ volatile("pushfq\n orq $0x100, (%%rsp)\n popfq" ::: "memory", "cc");
	wants(0);
	fgi_parked_unlock(list);
	__asm__ volatile("pushfq\n andq $~0x100, (%%rsp)\n popfq" ::: "memory", "cc");
	if (traps_left > 0) {
		check_runs(1, 0, 0);
		return false;
	}
	check_runs(1, 1, 1);
	return true;
}

static void at_every_instruction(void)
{
	struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
	int n = 1;

	CHECK_IS(sigaction(SIGTRAP, &action, NULL), 0);
	while (interrupted(n))
		n++;
	CHECK(n > 50, "only %d instructions", n);
}
#endif

int main(void)
{
	check_watchdog(500);
	more_than_it_keeps();
	locks_and_is_interrupted();
	check_runs(0, 1, 1);
#ifdef __x86_64__
	at_every_instruction();
#endif
	return 0;
}
