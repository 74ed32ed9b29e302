/* SPDX-License-Identifier: MIT */
/* stopper PID: stops single threads of a process, one after another at random, for 1 to 20 ms each, until the process
 * ends; then ends with 0, or with 1 if it could stop none. SIGSTOP stops all threads of a process at once, a tracer
 * one. If this is killed, the kernel lets the stopped thread go on.
 *
 * Prints how often it stopped a thread. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>

#define THREADS_MOST 256

static int threads_of(const char *pid, pid_t *threads)
{
	char path[64];
	struct dirent *entry;
	DIR *dir;
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%s/task", pid);
	dir = opendir(path);
	if (!dir)
		return 0;
	while (n < THREADS_MOST && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			threads[n++] = (pid_t)strtol(entry->d_name, NULL, 10);
	closedir(dir);
	return n;
}

static void pause_us(long us)
{
	struct timespec t = {us / 1000000, us % 1000000 * 1000};

	nanosleep(&t, NULL);
}

/* 1 if the thread was stopped and goes on, 0 if that was not possible: a thread that ends may not be traced. */
static int stop_for(pid_t thread, long us)
{
	int status;

	if (ptrace(PTRACE_SEIZE, thread, 0, 0) < 0)
		return 0;
	/* A traced thread that ends meanwhile stays until its tracer has waited for it. */
	ptrace(PTRACE_INTERRUPT, thread, 0, 0);
	if (waitpid(thread, &status, __WALL) < 0 || !WIFSTOPPED(status))
		return 0;
	pause_us(us);
	/* It may have stopped for a signal of its own, which it gets now. */
	if (ptrace(PTRACE_DETACH, thread, 0, status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status)) < 0)
		waitpid(thread, &status, __WALL);
	return 1;
}

int main(int argc, char **argv)
{
	pid_t threads[THREADS_MOST];
	unsigned long stops = 0;
	unsigned int seed = 1;
	int n;

	if (argc != 2) {
		fprintf(stderr, "usage: stopper PID\n");
		return 2;
	}
	while ((n = threads_of(argv[1], threads)) > 0) {
		stops += (unsigned long)stop_for(threads[rand_r(&seed) % (unsigned)n], 1000 + rand_r(&seed) % 19000);
		pause_us(1000 + rand_r(&seed) % 4000);
	}
	printf("stopper: %lu stops\n", stops);
	return stops == 0;
}
