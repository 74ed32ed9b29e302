/* SPDX-License-Identifier: MIT */
/* A thread that waits by sched_yield, beside a busy process on its CPU and a monitor. The system call gives that
 * process a time slice at most turns; the interposer's function must bring the thread back in less than half the time.
 * Both are taken in turns. */
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "tests/posix/posix.h"

#define ROUNDS 20
#define YIELDS 10

static void pin(void)
{
	cpu_set_t allowed, one;
	int cpu = 0;

	CHECK(sched_getaffinity(0, sizeof(allowed), &allowed) == 0);
	while (!CPU_ISSET(cpu, &allowed))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	CHECK(sched_setaffinity(0, sizeof(one), &one) == 0, "%m");
}

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

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double by_call(void)
{
	double begin = now();

	for (int i = 0; i < YIELDS; i++)
		CHECK_IS(syscall(SYS_sched_yield), 0);
	return now() - begin;
}

static double by_function(void)
{
	double begin = now();

	for (int i = 0; i < YIELDS; i++)
		CHECK_IS(sched_yield(), 0);
	return now() - begin;
}

int main(void)
{
	double call = 0, function = 0;
	pid_t hog;

	pin();
	hog = start_hog();
	for (int i = 0; i < ROUNDS; i++) {
		call += by_call();
		function += by_function();
	}
	ok(kill(hog, SIGKILL));
	CHECK_IS(waitpid(hog, NULL, 0), hog);
	printf("%d yields: %.1f ms by the system call, %.1f ms by sched_yield\n", ROUNDS * YIELDS, call * 1e3,
	       function * 1e3);
	CHECK(function < call / 2);
	return 0;
}
