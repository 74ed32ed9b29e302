/* SPDX-License-Identifier: MIT */
/* Sleeps of fg_wait_once that a signal handler leaves by siglongjmp. Such a thread counts as asleep for some time, and
 * no longer: after that a thread that sleeps alone sleeps as advised. */
#include <flexguard/advice.h>
#include <sched.h>
#include <setjmp.h>

#include "tests/check.h"

#define LOOKS_ASLEEP 1000000 /* the advice is the longest sleep */
#define WATCHDOG_S 500
#define FORGOTTEN_S 3 /* after so long; the header says two seconds */

static __thread sigjmp_buf back;
static int ready;

static void leave(int signo)
{
	(void)signo;
	siglongjmp(back, 1);
}

/* Returns what it did. */
static struct fg_advice sleep_once(void)
{
	struct fg_wait w = {.looks = LOOKS_ASLEEP};

	return fg_wait_once(&w);
}

static void *sleep_until_signal(void *unused)
{
	if (sigsetjmp(back, 1) == 0) {
		__atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
		for (;;)
			(void)sleep_once();
	}
	return unused;
}

/* The signal meets the thread in its sleep, unless the machine is late. */
static void leave_a_sleep(void)
{
	const struct timespec moment = {.tv_nsec = 1000000};
	pthread_t thread;

	__atomic_store_n(&ready, 0, __ATOMIC_RELAXED);
	thread = check_thread(sleep_until_signal, NULL);
	while (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE))
		sched_yield();
	nanosleep(&moment, NULL);
	ok(pthread_kill(thread, SIGUSR1));
	check_join(thread);
}

int main(void)
{
	const struct timespec forgotten = {.tv_sec = FORGOTTEN_S};
	const struct fg_wait w = {.looks = LOOKS_ASLEEP};
	struct sigaction action = {.sa_handler = leave};
	uint64_t alone = fg_wait_advice(&w).sleep_ns;
	cpu_set_t allowed;

	check_watchdog(WATCHDOG_S);
	CHECK(alone > 0);
	CHECK_IS(sleep_once().sleep_ns, alone);
	CHECK(sched_getaffinity(0, sizeof(allowed), &allowed) == 0);
	ok(sigaction(SIGUSR1, &action, NULL));
	for (int i = 0; i < 16 * CPU_COUNT(&allowed); i++)
		leave_a_sleep();
	nanosleep(&forgotten, NULL);
	CHECK_IS(sleep_once().sleep_ns, alone);
	return 0;
}
