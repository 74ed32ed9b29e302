/* SPDX-License-Identifier: MIT */
/* A program of another user that forks all the time: NUMBER children, MOST of them at a time. They have its
 * registration and share its memory, so that each takes little.
 *
 *   forks USER NUMBER MOST [GROUP]      GROUP: the directory of a control group that it joins
 *
 * Says how many it has when it has MOST of them, and goes on at a line of standard input; ends when all have ended.
 * Under an interposer and a monitor: tests/forks/forks.py. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/check.h"

#define STACK 4096

/* Its parent ends it, or the end of that does. */
static int rest(void *argument)
{
	(void)argument;
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
		return 1;
	pause();
	return 0;
}

static void join(const char *group)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/cgroup.procs", group);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	CHECK(fd >= 0 && write(fd, "0", 1) == 1, "%s: %s", path, strerror(errno));
	close(fd);
}

static void become(uid_t user)
{
	struct rlimit processes;

	CHECK(getrlimit(RLIMIT_NPROC, &processes) == 0, "%s", strerror(errno));
	processes.rlim_cur = processes.rlim_max;
	CHECK(setrlimit(RLIMIT_NPROC, &processes) == 0, "%s", strerror(errno));
	CHECK(setgid(user) == 0 && setuid(user) == 0, "%s", strerror(errno));
	CHECK(prctl(PR_SET_DUMPABLE, 1) == 0, "%s", strerror(errno)); /* as a program that the user has started */
}

static void end(const pid_t *children, long number)
{
	for (long i = 0; i < number; i++)
		CHECK(kill(children[i], SIGKILL) == 0, "%s", strerror(errno));
	for (long i = 0; i < number; i++)
		CHECK(waitpid(children[i], NULL, 0) == children[i], "%s", strerror(errno));
}

int main(int argc, char **argv)
{
	long number = argc > 2 ? atol(argv[2]) : 0, most = argc > 3 ? atol(argv[3]) : 0, made = 0, alive = 0;
	pid_t *children;
	char *stacks;

	CHECK(most > 0, "usage: forks USER NUMBER MOST [GROUP]");
	if (!getenv("FG_FORKS_READY")) { /* as the user, the program registers as it starts */
		if (argc > 4)
			join(argv[4]);
		become((uid_t)atoi(argv[1]));
		setenv("FG_FORKS_READY", "1", 1);
		execv(argv[0], argv);
		CHECK(0, "%s: %s", argv[0], strerror(errno));
	}
	check_watchdog(600);
	children = calloc((size_t)most, sizeof(*children));
	stacks = mmap(NULL, (size_t)most * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(children && stacks != MAP_FAILED, "no memory");
	while (made < number) {
		while (alive < most && made < number) {
			children[alive] = clone(rest, stacks + (alive + 1) * STACK, CLONE_VM | SIGCHLD, NULL);
			CHECK(children[alive] > 0, "the child %ld: %s", made, strerror(errno));
			alive++;
			made++;
		}
		printf("%ld\n", made);
		fflush(stdout);
		CHECK(getchar() == '\n', "the test has ended");
		end(children, alive);
		alive = 0;
	}
	free(children);
	return 0;
}
