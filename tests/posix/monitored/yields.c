/* SPDX-License-Identifier: MIT */
/* A thread that waits by sched_yield, beside a busy process on its CPU and a monitor. The system call gives that
 * process a time slice at most turns, so the interposer's function must come to sleep instead, which is a voluntary
 * switch. The call makes none. How soon the function sleeps is the scheduler's to say, so it yields until then. */
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "tests/one_cpu.h"
#include "tests/posix/posix.h"

#define SLEEPS 20
#define CALLS 200

static pid_t start_hog(void)
{
	pid_t child = fork();

	CHECK(child >= 0, "%m");
	if (child > 0)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		__asm__ volatile("");
}

static long voluntary_switches(void)
{
	struct rusage used;

	ok(getrusage(RUSAGE_THREAD, &used));
	return used.ru_nvcsw;
}

int main(void)
{
	long before, calls = 0;
	pid_t hog;

	check_watchdog(500);
	pin_to_first_cpu();
	hog = start_hog();
	before = voluntary_switches();
	for (int i = 0; i < CALLS; i++)
		CHECK_IS(syscall(SYS_sched_yield), 0);
	CHECK(voluntary_switches() - before < SLEEPS, "the system call sleeps");
	before = voluntary_switches();
	for (; voluntary_switches() - before < SLEEPS; calls++)
		CHECK_IS(sched_yield(), 0);
	ok(kill(hog, SIGKILL));
	CHECK_IS(waitpid(hog, NULL, 0), hog);
	printf("%ld calls of sched_yield had %d sleeps\n", calls, SLEEPS);
	return 0;
}
