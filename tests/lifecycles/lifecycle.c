/* SPDX-License-Identifier: MIT */
/* A process that does at random what processes do: it locks, forks, executes itself, becomes another user, enters
 * namespaces and control groups, is killed. Its children do the same. Sections must exclude one another, and no process
 * takes longer than its time.
 *
 *   lifecycle SECONDS SEED [GROUP...]      GROUP: directories of control groups that it may join
 *
 * Ends when all its descendants have ended. Under an interposer and a monitor: tests/lifecycles/lifecycles.sh. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/check.h"

#define THREADS 3
#define MOST_DEPTH 2     /* a process has some three children in its life: 13 for each tree are there at a time */
#define GRACE_SECONDS 60 /* a process that is not done so long after its time hangs */

static struct {
	pthread_mutex_t mutex;
	long a, b; /* equal outside of sections */
} guarded = {PTHREAD_MUTEX_INITIALIZER, 0, 0};
static int stop;
static uint32_t state;
static time_t end;
static unsigned int depth;
static char **all_arguments, **groups;

static unsigned int below(unsigned int n)
{
	return random_from(&state) % n;
}

static time_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return t.tv_sec;
}

static void *contend(void *seed)
{
	uint32_t own = (uint32_t)(uintptr_t)seed;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		ok(pthread_mutex_lock(&guarded.mutex));
		CHECK(guarded.a == guarded.b, "two threads are in the section");
		guarded.a++;
		for (volatile uint32_t i = random_from(&own) % 2000; i > 0; i--)
			;
		guarded.b++;
		ok(pthread_mutex_unlock(&guarded.mutex));
		if (random_from(&own) % 64 == 0)
			sched_yield();
	}
	return NULL;
}

static void live_a_while(void)
{
	const struct timespec t = {0, 1000000 + below(60) * 1000000};
	int number = (int)below(THREADS + 1);
	pthread_t threads[THREADS];

	__atomic_store_n(&stop, 0, __ATOMIC_RELAXED);
	for (int i = 0; i < number; i++)
		threads[i] = check_thread(contend, (void *)(uintptr_t)(below(1u << 30) + 1));
	nanosleep(&t, NULL);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < number; i++)
		check_join(threads[i]);
}

static void limit_time(void)
{
	time_t t = now();

	check_watchdog((unsigned int)(t < end ? end - t : 0) + GRACE_SECONDS);
}

/* Beside threads that lock. */
static void have_a_child(void)
{
	pthread_t thread;
	pid_t child;
	uint32_t seed = random_from(&state);

	__atomic_store_n(&stop, 0, __ATOMIC_RELAXED);
	thread = check_thread(contend, (void *)(uintptr_t)(seed | 1));
	ok(pthread_mutex_lock(&guarded.mutex)); /* the child's, too */
	child = fork();
	ok(pthread_mutex_unlock(&guarded.mutex));
	if (child == 0) {
		state = seed ^ 0x5bd1e995u ? seed ^ 0x5bd1e995u : 1;
		depth++;
		limit_time();
		return;
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	check_join(thread);
}

static void execute_again(void)
{
	static char seed[24], level[24], until[24];

	snprintf(seed, sizeof(seed), "%u", state);
	snprintf(level, sizeof(level), "%u", depth);
	snprintf(until, sizeof(until), "%ld", (long)end);
	setenv("FG_LIFECYCLE_DEPTH", level, 1);
	/* What is left of the time, in whole seconds, would grow with each exec. */
	setenv("FG_LIFECYCLE_END", until, 1);
	all_arguments[2] = seed;
	execv("/proc/self/exe", all_arguments);
	CHECK(errno == EACCES || errno == ENOENT, "execv: %s", strerror(errno)); /* as another user */
}

static void join_a_group(void)
{
	unsigned int number = 0;
	char path[512];
	int fd;

	while (groups[number])
		number++;
	if (!number)
		return;
	snprintf(path, sizeof(path), "%s/cgroup.procs", groups[below(number)]);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	(void)!write(fd, "0", 1);
	close(fd);
}

static void enter_a_namespace(void)
{
	static const int kinds[] = {CLONE_NEWPID, CLONE_NEWNS, CLONE_NEWNET, CLONE_NEWUSER, CLONE_NEWIPC, CLONE_NEWUTS};
	int kind = kinds[below(sizeof(kinds) / sizeof(kinds[0]))], status = 0;
	pid_t child;

	if (unshare(kind) < 0 || kind != CLONE_NEWPID) /* where it may */
		return;
	child = fork(); /* the first in there; this process can have no threads any more */
	if (child == 0)
		return;
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	_exit(WIFSIGNALED(status) ? 0 : WEXITSTATUS(status));
}

static void change(void)
{
	switch (below(12)) {
	case 0:
	case 1:
	case 2:
		if (depth < MOST_DEPTH)
			have_a_child();
		break;
	case 3:
	case 4:
		execute_again();
		break;
	case 5:
		(void)!setuid(70000 + below(5));
		break;
	case 6:
		join_a_group();
		break;
	case 7:
		enter_a_namespace();
		break;
	case 8:
		if (depth > 0 && below(2))
			kill(getpid(), SIGKILL);
		break;
	case 9:
		if (depth > 0 && below(2))
			_exit(0);
		break;
	default:
		break;
	}
}

/* 0: it has ended as it should; killed counts. */
static int reap(int flags)
{
	int status, failed = 0;

	while (waitpid(-1, &status, flags) > 0)
		if (!(WIFEXITED(status) && WEXITSTATUS(status) == 0) && !(WIFSIGNALED(status) && WTERMSIG(status) == 9))
			failed = 1;
	return failed;
}

int main(int argc, char **argv)
{
	const char *level = getenv("FG_LIFECYCLE_DEPTH"), *until = getenv("FG_LIFECYCLE_END");
	int failed = 0;

	CHECK(argc >= 3, "usage: lifecycle SECONDS SEED [GROUP...]");
	all_arguments = argv;
	groups = argv + 3;
	depth = level ? (unsigned int)atoi(level) : 0;
	end = until ? atol(until) : now() + atol(argv[1]);
	state = (uint32_t)strtoul(argv[2], NULL, 10);
	state += !state;
	limit_time();
	if (depth == 0)
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	do {
		live_a_while();
		change();
		failed |= reap(WNOHANG);
	} while (now() < end);
	failed |= reap(0);
	return failed;
}
