/* SPDX-License-Identifier: MIT */
/* A sandbox that does not let a process ask for its threads' ids, by an error or by death: each thread still owns what
 * it locks, and nothing else, in the children of forks, too. */
#include "tests/posix/posix.h"
#include "tests/unit/forbid.h"

static pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER, recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP,
		       checked = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static long counter;

static void *not_mine(void *arg)
{
	CHECK_IS(pthread_mutex_trylock(&recursive), EBUSY);
	CHECK_IS(pthread_mutex_unlock(&recursive), EPERM);
	CHECK_IS(pthread_mutex_unlock(&checked), EPERM);
	return arg;
}

static void *count(void *arg)
{
	for (int i = 0; i < 2000; i++) {
		ok(pthread_mutex_lock(&normal));
		counter++;
		ok(pthread_mutex_unlock(&normal));
	}
	return arg;
}

static void use(void)
{
	pthread_t other;

	counter = 0;
	ok(pthread_mutex_lock(&recursive));
	ok(pthread_mutex_lock(&recursive));
	ok(pthread_mutex_lock(&checked));
	CHECK_IS(pthread_mutex_lock(&checked), EDEADLK);
	elsewhere(not_mine, NULL);
	ok(pthread_mutex_unlock(&checked));
	ok(pthread_mutex_unlock(&recursive));
	ok(pthread_mutex_unlock(&recursive));
	other = check_thread(count, NULL);
	count(NULL);
	check_join(other);
	CHECK_IS(counter, 4000);
}

static void use_and_fork(void)
{
	use();
	in_child(use);
}

static void by_death(void)
{
	filter_call(SYS_gettid, SECCOMP_RET_KILL_PROCESS, SECCOMP_FILTER_FLAG_TSYNC);
	use_and_fork();
}

static void by_error(void)
{
	forbid(SYS_gettid);
	errno = 0;
	CHECK_IS(syscall(SYS_gettid), -1); /* the filter is there */
	use_and_fork();
}

int main(void)
{
	in_child(by_death);
	in_child(by_error);
	return 0;
}
