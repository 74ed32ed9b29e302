/* SPDX-License-Identifier: MIT */
/* sched_yield and thrd_yield: the value, errno, in a signal handler, under each policy, and no cancellation point. */
#include <sched.h>
#include <threads.h>

#include "tests/posix/posix.h"

#define YIELDS 1000

static int in_handler, last;

static void yield_often(void)
{
	errno = ENOTTY;
	for (int i = 0; i < YIELDS; i++) {
		CHECK_IS(sched_yield(), 0);
		thrd_yield();
	}
	CHECK_IS(errno, ENOTTY);
}

static void handle(int signo)
{
	int saved = errno;

	(void)signo;
	CHECK_IS(sched_yield(), 0);
	thrd_yield();
	CHECK_IS(errno, saved);
	tell(&in_handler, in_handler + 1);
}

/* Signals at any point of a yield. */
static void *yield_until_last(void *unused)
{
	(void)unused;
	errno = ENOTTY;
	while (!__atomic_load_n(&last, __ATOMIC_ACQUIRE))
		CHECK_IS(sched_yield(), 0);
	CHECK_IS(errno, ENOTTY);
	return NULL;
}

static void test_handler(void)
{
	struct sigaction action = {.sa_handler = handle};
	pthread_t thread;

	ok(sigaction(SIGUSR1, &action, NULL));
	thread = check_thread(yield_until_last, NULL);
	for (int i = 0; i < 100; i++) {
		ok(pthread_kill(thread, SIGUSR1));
		await(&in_handler, i + 1);
	}
	tell(&last, 1);
	check_join(thread);
}

static void *yield_cancelled(void *unused)
{
	(void)unused;
	ok(pthread_cancel(pthread_self()));
	yield_often();
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	return (void *)1L;
}

static void *yield_by_policy(void *policy)
{
	struct sched_param param = {.sched_priority = sched_get_priority_min((int)(long)policy)};
	int error = pthread_setschedparam(pthread_self(), (int)(long)policy, &param);

	if (error) {
		CHECK_IS(error, EPERM);
		return NULL;
	}
	yield_often();
	return NULL;
}

int main(void)
{
	static const int policies[] = {SCHED_OTHER, SCHED_BATCH, SCHED_IDLE, SCHED_FIFO, SCHED_RR};

	yield_often();
	test_handler();
	CHECK(elsewhere(yield_cancelled, NULL) == 1, "a yield was a cancellation point");
	for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++)
		elsewhere(yield_by_policy, (void *)(long)policies[i]);
	return 0;
}
