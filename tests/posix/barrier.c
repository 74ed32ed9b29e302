/* SPDX-License-Identifier: MIT */
/* Barriers: nobody leaves early, one thread of each phase is told, and the memory may go when the last phase ends. */
#include <sys/mman.h>

#include "tests/posix/posix.h"

#define MOST 8

static pthread_barrier_t *b;
static int threads, arrived, serial;

static void *meet(void *phases)
{
	for (int phase = 1; phase <= (long)phases; phase++) {
		int result;

		__atomic_add_fetch(&arrived, 1, __ATOMIC_RELAXED);
		result = pthread_barrier_wait(b);
		CHECK(__atomic_load_n(&arrived, __ATOMIC_RELAXED) >= phase * threads, "left before all had arrived");
		if (result == PTHREAD_BARRIER_SERIAL_THREAD)
			__atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED);
		else
			ok(result);
	}
	return NULL;
}

static void phases(int n, long many, bool shared)
{
	pthread_t others[MOST];
	pthread_barrierattr_t attr;

	ok(pthread_barrierattr_init(&attr));
	ok(pthread_barrierattr_setpshared(&attr, shared ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE));
	ok(pthread_barrier_init(b, &attr, (unsigned int)n));
	ok(pthread_barrierattr_destroy(&attr));
	threads = n;
	arrived = serial = 0;
	for (int i = 0; i < n; i++)
		others[i] = check_thread(meet, (void *)many);
	for (int i = 0; i < n; i++)
		check_join(others[i]);
	CHECK_IS(serial, many);
	ok(pthread_barrier_destroy(b));
}

/* More threads than the barrier counts: each phase takes some of them. There are as many arrivals as phases need. */
static int arrivals;

static void *meet_some(void *arg)
{
	(void)arg;
	while (__atomic_sub_fetch(&arrivals, 1, __ATOMIC_RELAXED) >= 0)
		if (pthread_barrier_wait(b) == PTHREAD_BARRIER_SERIAL_THREAD)
			__atomic_add_fetch(&serial, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void more_threads(void)
{
	pthread_t others[6];

	memset(b, 0x5b, sizeof(*b)); /* what was in its memory does not matter */
	ok(pthread_barrier_init(b, NULL, 3));
	arrivals = 12000;
	serial = 0;
	for (int i = 0; i < 6; i++)
		others[i] = check_thread(meet_some, NULL);
	for (int i = 0; i < 6; i++)
		check_join(others[i]);
	CHECK_IS(serial, 4000);
	ok(pthread_barrier_destroy(b));
}

static void *wait_once(void *barrier)
{
	return (void *)(long)pthread_barrier_wait(barrier);
}

/* The thread that is told destroys the barrier, while others may still be leaving it. */
static void freed_at_once(void)
{
	for (int i = 0; i < 500; i++) {
		pthread_barrier_t *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		pthread_t others[2];
		int told;

		CHECK(m != MAP_FAILED);
		ok(pthread_barrier_init(m, NULL, 3));
		for (int k = 0; k < 2; k++)
			others[k] = check_thread(wait_once, m);
		told = pthread_barrier_wait(m) != 0;
		ok(pthread_barrier_destroy(m));
		ok(munmap(m, 4096));
		for (int k = 0; k < 2; k++)
			told += check_join(others[k]) != NULL;
		CHECK_IS(told, 1);
	}
}

static void across_processes(void)
{
	pthread_barrierattr_t attr;
	pid_t pid;

	ok(pthread_barrierattr_init(&attr));
	ok(pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED));
	ok(pthread_barrier_init(b, &attr, 2));
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		alarm(WATCHDOG_SECONDS);
	for (int i = 0; i < 100; i++)
		pthread_barrier_wait(b);
	if (pid == 0)
		_exit(0);
	reap(pid);
	ok(pthread_barrier_destroy(b));
}

static void handled(int signo)
{
	(void)signo;
}

/* A signal handler does not end the wait. */
static void interrupted(void)
{
	struct sigaction action = {.sa_handler = handled};
	pthread_t waiter;

	ok(sigaction(SIGUSR1, &action, NULL));
	ok(pthread_barrier_init(b, NULL, 2));
	waiter = check_thread(wait_once, b);
	for (int i = 0; i < 20; i++) {
		ok(pthread_kill(waiter, SIGUSR1));
		usleep(200);
	}
	CHECK_IS(pthread_tryjoin_np(waiter, NULL), EBUSY);
	pthread_barrier_wait(b);
	check_join(waiter);
	ok(pthread_barrier_destroy(b));
}

/* A count that is refused changes nothing. */
static void refused(void)
{
	CHECK_IS(pthread_barrier_init(b, NULL, 0), EINVAL);
	ok(pthread_barrier_init(b, NULL, 1));
	CHECK_IS(pthread_barrier_init(b, NULL, 0), EINVAL);
	CHECK_IS(pthread_barrier_wait(b), PTHREAD_BARRIER_SERIAL_THREAD);
	ok(pthread_barrier_destroy(b));
}

int main(void)
{
	b = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(b != MAP_FAILED);
	refused();
	for (int shared = 0; shared < 2; shared++)
		for (int n = 1; n <= MOST; n += n > 2 ? 5 : 1)
			phases(n, rounds(1000), shared);
	more_threads();
	freed_at_once();
	across_processes();
	interrupted();
	return 0;
}
