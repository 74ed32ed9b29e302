/* SPDX-License-Identifier: MIT */
/* Sections that are used wrongly, beside a monitor: those that are not ended, that end twice, and that a process dies
 * in. Nothing of it may stay. */
#include <flexguard/advice.h>
#include <flexguard/monitor.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/check.h"
#include "tests/one_cpu.h"

static fg_handle *handle; /* of the process that is waited for; processes share it */

static void spin(void)
{
	for (;;)
		__asm__ volatile("");
}

static void spin_in_a_section(void)
{
	fg_section_begin();
	__atomic_store_n(handle, fg_thread_handle(), __ATOMIC_RELEASE);
	spin();
}

/* On the one CPU where all of them are. */
static pid_t start(void (*play)(void))
{
	pid_t child = fork();

	CHECK(child >= 0, "%m");
	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin_to_first_cpu();
	play();
	_exit(0);
}

static enum fg_wait_reason reason(void)
{
	struct fg_wait w = {.whom = __atomic_load_n(handle, __ATOMIC_ACQUIRE)};

	return (enum fg_wait_reason)fg_wait_advice(&w).reason;
}

/* The watchdog ends what does not come. */
static void await(enum fg_wait_reason wanted)
{
	const struct timespec moment = {.tv_nsec = 50000};

	while (reason() != wanted)
		nanosleep(&moment, NULL);
}

static void await_quiet(void)
{
	const struct timespec moment = {.tv_nsec = 50000};

	while (fg_critical_section_preempted())
		nanosleep(&moment, NULL);
}

/* Killed while it waits for its CPU: the monitor forgets its name and its count. */
static void dies_in_a_section(void)
{
	pid_t busy = start(spin);

	for (int i = 0; check_goes_on(i, 10); i++) {
		pid_t child = start(spin_in_a_section);

		while (!__atomic_load_n(handle, __ATOMIC_ACQUIRE))
			sched_yield();
		await(FG_WHY_PREEMPTED);
		CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
		CHECK_IS(reason(), FG_WHY_RUNS); /* of which nothing is known */
		await_quiet();
		__atomic_store_n(handle, 0, __ATOMIC_RELEASE);
	}
	CHECK(kill(busy, SIGKILL) == 0 && waitpid(busy, NULL, 0) == busy);
}

static void *forget_to_end(void *unused)
{
	for (int i = 0; i < 3; i++)
		fg_section_begin();
	sched_yield();
	return unused;
}

static void *end_twice(void *unused)
{
	fg_section_begin();
	for (int i = 0; i < 3; i++)
		fg_section_end();
	fg_section_begin(); /* is not seen */
	sched_yield();
	fg_section_end();
	return unused;
}

static void threads_that_end(void)
{
	for (int i = 0; check_goes_on(i, 200); i++)
		check_join(check_thread(i % 2 ? forget_to_end : end_twice, NULL));
	await_quiet();
}

int main(void)
{
	check_watchdog(500);
	handle = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(handle != MAP_FAILED);
	CHECK(fg_monitor_attached(), "%s", fg_strerror(fg_monitor_error()));
	threads_that_end();
	dies_in_a_section();
	return 0;
}
