/* SPDX-License-Identifier: MIT */
/* fg-check-NAME: schedules of a few threads, each in a process of its own, until one fails or the time is over. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "simulator/calls.h"
#include "simulator/check/check.h"
#include "simulator/check/schedule.h"
#include "simulator/futex.h"
#include "simulator/host.h"

#define HOST_LIMIT 60u /* seconds of one schedule */

static const char usage[] = "NAME [DRIVER] [OPTION...]: runs schedules of 2 to 4 threads, and says which fails\n"
			    "  --seconds S    so long (10)\n"
			    "  --first N      the first seed (1); the next schedule has the next\n"
			    "  --seed N       this schedule alone\n"
			    "  --threads N    instead of 2 to 4\n"
			    "  --list         the drivers\n"
			    "Ends with 0: none failed; 1: one did; 2: the command line is wrong.\n";

static struct {
	const char *program;
	struct fgs_driver driver;
	uint64_t seconds, first, seed, threads;
} given = {.seconds = 10, .first = 1};

/* ---- the threads of a schedule ---------------------------------------------------------------------------------- */

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument);
int __wrap_pthread_join(pthread_t thread, void **result);

static void *body(void *index)
{
	given.driver.thread((unsigned int)(uintptr_t)index);
	return NULL;
}

static void *all(void *count)
{
	unsigned int threads = (unsigned int)(uintptr_t)count;
	pthread_t thread[8];

	given.driver.begin(threads);
	for (uintptr_t i = 0; i < threads; i++)
		if (__wrap_pthread_create(&thread[i], NULL, body, (void *)i))
			fgs_fail("cannot start a thread");
	for (unsigned int i = 0; i < threads; i++)
		__wrap_pthread_join(thread[i], NULL);
	given.driver.end(threads);
	return NULL;
}

static void run(uint64_t seed)
{
	struct fgs_thread *first;
	uint64_t threads;

	alarm(HOST_LIMIT);
	fgs_schedule_start(seed);
	threads = given.threads ? given.threads : 2 + (fgs_random() >> 33) % 3;
	fgs_memory_start();
	fgs_fibers_start();
	fgs_futex_start();
	fgs_watch_start(false);
	first = fgs_thread_new(all, (void *)(uintptr_t)threads, 0);
	fgs_watch_thread(first);
	fgs_wake_new(first, 0);
	fgs_start_early_threads();
	fgs_schedule_run(first);
	_exit(0);
}

/* ---- the schedules ---------------------------------------------------------------------------------------------- */

static int failed(uint64_t seed, int status)
{
	if (WIFSIGNALED(status))
		fprintf(stderr, "fg-check: %s\n",
			WTERMSIG(status) == SIGALRM ? "the schedule takes a minute" : strsignal(WTERMSIG(status)));
	printf("%s: schedule %lu fails; again: %s %s --seed %lu", given.driver.name, (unsigned long)seed, given.program,
	       given.driver.name, (unsigned long)seed);
	if (given.threads)
		printf(" --threads %lu", (unsigned long)given.threads);
	printf("\n");
	return 1;
}

static int one(uint64_t seed)
{
	int status;
	pid_t child;

	fgs_forget_early_threads();
	child = fork();

	if (child == 0)
		run(seed);
	if (child < 0 || waitpid(child, &status, 0) < 0) {
		fprintf(stderr, "fg-check: cannot start a process: %s\n", strerror(errno));
		exit(2);
	}
	return status ? failed(seed, status) : 0;
}

static int many(void)
{
	time_t end = time(NULL) + (time_t)given.seconds;
	uint64_t seed = given.first;

	do {
		if (one(seed++))
			return 1;
	} while (time(NULL) < end);
	printf("%s: %lu schedules, none fails\n", given.driver.name, (unsigned long)(seed - given.first));
	return 0;
}

/* ---- the command line ------------------------------------------------------------------------------------------- */

static int wrong(const char *what, const char *text)
{
	fprintf(stderr, "fg-check: %s: %s\n%s", text, what, usage);
	return 2;
}

static bool take(const char *option, uint64_t value)
{
	if (strcmp(option, "--seconds") == 0)
		given.seconds = value;
	else if (strcmp(option, "--first") == 0)
		given.first = value;
	else if (strcmp(option, "--seed") == 0)
		given.seed = value;
	else if (strcmp(option, "--threads") == 0 && value >= 2 && value <= 8)
		given.threads = value;
	else
		return false;
	return true;
}

static const struct fgs_driver *driver_called(const char *name)
{
	for (const struct fgs_driver *d = fgs_drivers; d->name; d++)
		if (strcmp(d->name, name) == 0)
			return d;
	return NULL;
}

static int parse(int argc, char **argv)
{
	given.program = argv[0];
	given.driver = fgs_drivers[0];
	for (int i = 1; i < argc; i++) {
		char *end = NULL;
		uint64_t value;

		if (argv[i][0] != '-') {
			const struct fgs_driver *driver = driver_called(argv[i]);

			if (!driver)
				return wrong("no driver is called so (--list)", argv[i]);
			given.driver = *driver;
			continue;
		}
		if (i + 1 == argc)
			return wrong("it needs a value", argv[i]);
		errno = 0;
		value = strtoull(argv[i + 1], &end, 10);
		if (errno || *end || end == argv[i + 1] || argv[i + 1][0] == '-' || !take(argv[i], value))
			return wrong("no such option, or no such value", argv[i]);
		i++;
	}
	return 0;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 2 && strcmp(argv[1], "--help") == 0) {
		fputs(usage, stdout);
		return 0;
	}
	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		for (const struct fgs_driver *d = fgs_drivers; d->name; d++)
			puts(d->name);
		return 0;
	}
	if (parse(argc, argv))
		return 2;
	return given.seed ? one(given.seed) : many();
}
