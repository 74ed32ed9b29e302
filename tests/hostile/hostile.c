/* SPDX-License-Identifier: MIT */
/* Runs a command on a host that is not prompt, and ends as it ends. Conditions come before the command, in any number:
 *
 *   hostile [late] [thief] [one-cpu] COMMAND...
 *
 * late     timers of the command, and of what it starts, fire up to 500 us late. Those of real-time threads do not
 * thief    a real-time thread on each CPU has it for 5 to 50 ms, leaves it for as long, and so on. Needs CAP_SYS_NICE
 * one-cpu  all of it runs on one CPU */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LATE_NS 500000ul
#define LEAST_NS 5000000u
#define MOST_NS 50000000u
#define PRIORITY 20 /* above those of the tests that order their threads by it, from 1 to 6 */
#define CPUS 1024

static void fail(const char *what)
{
	fprintf(stderr, "hostile: %s: %s\n", what, strerror(errno));
	exit(1);
}

static unsigned long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (unsigned long)now.tv_sec * 1000000000u + (unsigned long)now.tv_nsec;
}

static void stay_on(int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		fail("cannot stay on one CPU");
}

static void steal(unsigned int seed)
{
	for (;;) {
		unsigned long until = now_ns() + LEAST_NS + (unsigned long)rand_r(&seed) % (MOST_NS - LEAST_NS);
		struct timespec pause = {.tv_nsec = LEAST_NS + rand_r(&seed) % (long)(MOST_NS - LEAST_NS)};

		while (now_ns() < until)
			;
		nanosleep(&pause, NULL);
	}
}

/* It ends with this process. */
static void start_thief(int cpu)
{
	const struct sched_param priority = {.sched_priority = PRIORITY};
	pid_t parent = getpid(), thief = fork();

	if (thief < 0)
		fail("fork");
	if (thief > 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	stay_on(cpu);
	if (sched_setscheduler(0, SCHED_FIFO, &priority))
		_exit(1); /* the caller has tried it */
	steal((unsigned int)cpu + 1);
}

static void start_thieves(void)
{
	const struct sched_param priority = {.sched_priority = PRIORITY}, usual = {0};
	cpu_set_t allowed;

	if (sched_setscheduler(0, SCHED_FIFO, &priority) || sched_setscheduler(0, SCHED_OTHER, &usual))
		fail("a thief needs a real-time priority");
	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		fail("sched_getaffinity");
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &allowed))
			start_thief(cpu);
}

static bool take_condition(const char *word)
{
	if (strcmp(word, "late") == 0)
		prctl(PR_SET_TIMERSLACK, LATE_NS);
	else if (strcmp(word, "thief") == 0)
		start_thieves();
	else if (strcmp(word, "one-cpu") == 0)
		stay_on(sched_getcpu());
	else
		return false;
	return true;
}

int main(int argc, char **argv)
{
	int status;
	pid_t command;

	for (argv++; argc > 1 && *argv && take_condition(*argv); argv++)
		;
	if (!*argv) {
		fputs("usage: hostile [late] [thief] [one-cpu] COMMAND...\n", stderr);
		return 2;
	}
	command = fork();
	if (command == 0) {
		execvp(*argv, argv);
		fail(*argv);
	}
	if (command < 0)
		fail("fork");
	while (waitpid(command, &status, 0) < 0)
		if (errno != EINTR)
			fail("waitpid");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
