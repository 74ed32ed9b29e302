/* SPDX-License-Identifier: MIT */
/* A program that is started under a seccomp filter which kills for what a program does not do by itself: it registers
 * with no monitor, and its locks, condition variables, read-write locks and semaphores do without. Where the variable
 * says that such a filter is no sandbox, it does try, and is killed. */
#include <semaphore.h>
#include <stddef.h>

#include "tests/posix/posix.h"
#include "tests/unit/forbid.h"

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER, checked = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static long counter;

static void *use(void *arg)
{
	for (int i = 0; i < 3000; i++) {
		ok(pthread_mutex_lock(&m));
		counter++;
		if (i % 50 == 0)
			ok(pthread_cond_signal(&c));
		ok(pthread_mutex_unlock(&m));
		ok(i % 10 ? pthread_rwlock_rdlock(&rw) : pthread_rwlock_wrlock(&rw));
		ok(pthread_rwlock_unlock(&rw));
	}
	return arg;
}

static void wait_for_no_token(void)
{
	struct timespec soon = from_now(CLOCK_REALTIME, 20000000);
	sem_t sem;

	ok(sem_init(&sem, 0, 0));
	filter_call(SYS_rt_sigprocmask, SECCOMP_RET_KILL_PROCESS, 0); /* threads begin with it */
	filter_call(SYS_rt_sigaction, SECCOMP_RET_KILL_PROCESS, 0);
	CHECK_IS(sem_timedwait(&sem, &soon), -1);
	CHECK_IS(errno, ETIMEDOUT);
}

static int inside(void)
{
	struct timespec soon = from_now(CLOCK_REALTIME, 20000000);
	pthread_t threads[3];
	int number = at_most(3);

	ok(pthread_mutex_lock(&m)); /* for so long that waiters park */
	for (int i = 0; i < number; i++)
		threads[i] = check_thread(use, NULL);
	while (!reached(CLOCK_REALTIME, &soon))
		;
	soon = from_now(CLOCK_REALTIME, 20000000);
	pthread_cond_timedwait(&c, &m, &soon);
	ok(pthread_mutex_unlock(&m));
	for (int i = 0; i < number; i++)
		check_join(threads[i]);
	CHECK_IS(counter, 3000 * number);
	ok(pthread_mutex_lock(&checked));
	CHECK_IS(pthread_mutex_lock(&checked), EDEADLK);
	ok(pthread_mutex_unlock(&checked));
	wait_for_no_token();
	return 0;
}

/* The status with which the program ends under filters on each of `calls`. */
static int status_under(const int *calls, int number, const char *allowed, char *self)
{
	pid_t pid = fork();
	int status;

	CHECK(pid >= 0);
	if (pid == 0) {
		setenv("FLEXGUARD_SOCKET", "@flexguard-no-monitor", 1);
		if (allowed)
			setenv("FLEXGUARD_FILTERS", allowed, 1);
		else
			unsetenv("FLEXGUARD_FILTERS");
		for (int i = 0; i < number; i++)
			filter_call((unsigned int)calls[i], SECCOMP_RET_KILL_PROCESS, 0);
		execl(self, self, "inside", (char *)NULL);
		_exit(1);
	}
	CHECK_IS(waitpid(pid, &status, 0), pid);
	return status;
}

/* As /proc/self/status has it. */
static int filters(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[256];
	int number = -1;

	CHECK(file);
	while (number < 0 && fgets(line, sizeof(line), file))
		if (sscanf(line, "Seccomp_filters: %d", &number) != 1)
			number = -1;
	fclose(file);
	return number < 0 ? 0 : number;
}

#ifndef SYS_poll /* arm64 */
#define SYS_poll SYS_ppoll
#endif

int main(int argc, char **argv)
{
	static const int forbidden[] = {SYS_socket,         SYS_connect,     SYS_membarrier,   SYS_sched_getscheduler,
					SYS_sched_getparam, SYS_sched_yield, SYS_gettid,       SYS_tgkill,
					SYS_getpriority,    SYS_poll,        SYS_rt_sigpending};
	char as_here[16], one_more[16];

	if (argc > 1)
		return inside();
	snprintf(as_here, sizeof(as_here), "%d", filters());
	snprintf(one_more, sizeof(one_more), "%d", filters() + 1);
	CHECK_IS(status_under(forbidden, 11, as_here, argv[0]), 0);
	if (filters() == 0)
		CHECK_IS(status_under(forbidden, 2, NULL, argv[0]), 0); /* one is a container's, two are not */
	CHECK_IS(status_under(forbidden, 1, one_more, argv[0]), ours() ? SIGSYS : 0);
	return 0;
}
