/* SPDX-License-Identifier: MIT */
/* Very many waiters of some processes at one mutex for shared memory, and in one wait by advice. Each gets its turn,
 * also after a process with a share of them was killed. Prints what they cost.
 *
 *   crowd [WAITERS [PROCESSES [mutex|advice]]]     the last: only these
 *
 * docs/results/advice.md has the costs of 100,000 waiters; kernel.pid_max must be larger than that. */
#include <errno.h>
#include <flexguard/advice.h>
#include <flexguard/mutex_shared.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/check.h"

#define STACK 65536
#define MOST_PROCESSES 64
#define WATCHDOG_S 500
#define SETTLE_S 2 /* until all sleep */

static struct shared {
	struct fg_mutex_shared m;
	fg_handle owner;
	uint64_t count, copy; /* only the owner of the mutex changes them */
	uint64_t arrived, go, went_on, timed_out;
} * s;

static int waiters = 400, processes = 4;
static pid_t children[MOST_PROCESSES];

static uint64_t value(const uint64_t *of)
{
	return __atomic_load_n(of, __ATOMIC_ACQUIRE);
}

static double seconds_of(clockid_t clock)
{
	struct timespec t;

	return clock_gettime(clock, &t) == 0 ? (double)t.tv_sec + (double)t.tv_nsec / 1e9 : 0;
}

static double cpu_of_children(void)
{
	double sum = 0;
	clockid_t clock;

	for (int i = 0; i < processes; i++)
		if (children[i] && clock_getcpuclockid(children[i], &clock) == 0)
			sum += seconds_of(clock);
	return sum;
}

static void sleep_ms(long ms)
{
	const struct timespec pause = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&pause, NULL);
}

static void section(void)
{
	CHECK(s->count == s->copy, "%lu and %lu", (unsigned long)s->count, (unsigned long)s->copy);
	__atomic_store_n(&s->count, s->count + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&s->copy, s->copy + 1, __ATOMIC_RELAXED);
}

/* Every 16th waits for a short time first. */
static void *wait_for_mutex(void *number)
{
	struct timespec soon;

	__atomic_fetch_add(&s->arrived, 1, __ATOMIC_RELEASE);
	clock_gettime(CLOCK_MONOTONIC, &soon);
	soon.tv_sec++;
	if ((uintptr_t)number % 16 == 0 && fg_mutex_shared_timedlock(&s->m, CLOCK_MONOTONIC, &soon) == 0) {
		section();
		ok(fg_mutex_shared_unlock(&s->m));
		return NULL;
	}
	if ((uintptr_t)number % 16 == 0)
		__atomic_fetch_add(&s->timed_out, 1, __ATOMIC_RELAXED);
	fg_mutex_shared_lock(&s->m);
	section();
	ok(fg_mutex_shared_unlock(&s->m));
	return NULL;
}

static void *wait_by_advice(void *unused)
{
	struct fg_wait w = {.whom = value(&s->owner)};

	__atomic_fetch_add(&s->arrived, 1, __ATOMIC_RELEASE);
	while (!value(&s->go))
		(void)fg_wait_once(&w);
	__atomic_fetch_add(&s->went_on, 1, __ATOMIC_RELEASE);
	return unused;
}

static int share_of_each(void)
{
	return waiters / processes;
}

/* The stacks are one mapping: a process may have 65,530. */
static void play(void *(*wait)(void *))
{
	int number = share_of_each();
	pthread_t *threads = calloc((size_t)number, sizeof(*threads));
	char *stacks = mmap(NULL, (size_t)number * STACK, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	pthread_attr_t attributes;

	CHECK(threads && stacks != MAP_FAILED);
	ok(pthread_attr_init(&attributes));
	for (int i = 0; i < number; i++) {
		ok(pthread_attr_setstack(&attributes, stacks + (size_t)i * STACK, STACK));
		ok(pthread_create(&threads[i], &attributes, wait, (void *)(uintptr_t)i));
	}
	for (int i = 0; i < number; i++)
		check_join(threads[i]);
	free(threads);
	_exit(0);
}

/* Returns once each has begun its wait. */
static void start_all(void *(*wait)(void *))
{
	s->count = s->copy = s->arrived = s->go = s->timed_out = 0;
	for (int i = 0; i < processes; i++) {
		children[i] = fork();
		CHECK(children[i] >= 0, "%m");
		if (children[i])
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		check_watchdog(WATCHDOG_S);
		play(wait);
	}
	while (value(&s->arrived) < (uint64_t)share_of_each() * (uint64_t)processes)
		sleep_ms(1);
}

static void end_all(void)
{
	int status;

	for (int i = 0; i < processes; i++) {
		if (!children[i])
			continue;
		CHECK(waitpid(children[i], &status, 0) == children[i]);
		CHECK_IS(status, 0);
	}
}

static void kill_one(void)
{
	CHECK(kill(children[0], SIGKILL) == 0 && waitpid(children[0], NULL, 0) == children[0]);
	children[0] = 0;
}

static volatile unsigned sink;

static void compute_for(double cpu_seconds)
{
	double begin = seconds_of(CLOCK_THREAD_CPUTIME_ID);

	while (seconds_of(CLOCK_THREAD_CPUTIME_ID) - begin < cpu_seconds)
		for (int i = 0; i < 10000; i++)
			sink = sink * 1664525u + 1013904223u;
}

/* This thread is waited for. It sleeps first, then it needs 0.1 s of CPU time. */
static void be_waited_for(const char *at)
{
	double cpu, begin;

	sleep_ms(SETTLE_S * 1000);
	cpu = cpu_of_children();
	begin = seconds_of(CLOCK_MONOTONIC);
	sleep_ms(1000);
	printf("%s: %d waiters take %.2f CPUs while the owner sleeps\n", at, share_of_each() * processes,
	       (cpu_of_children() - cpu) / (seconds_of(CLOCK_MONOTONIC) - begin));
	begin = seconds_of(CLOCK_MONOTONIC);
	compute_for(0.1);
	printf("%s: 0.1 s of CPU time take it %.2f s\n", at, seconds_of(CLOCK_MONOTONIC) - begin);
}

static void at_the_mutex(bool kills)
{
	double begin;

	fg_mutex_shared_lock(&s->m);
	start_all(wait_for_mutex);
	be_waited_for("mutex");
	if (kills)
		kill_one();
	begin = seconds_of(CLOCK_MONOTONIC);
	ok(fg_mutex_shared_unlock(&s->m));
	end_all();
	printf("mutex: %lu turns in %.2f s, %lu timed out before\n", (unsigned long)s->count,
	       seconds_of(CLOCK_MONOTONIC) - begin, (unsigned long)s->timed_out);
	CHECK_IS(s->count, share_of_each() * (processes - kills));
	CHECK(s->m.opaque == 0);
}

static void by_advice(void)
{
	double begin;

	fg_section_begin();
	__atomic_store_n(&s->owner, fg_thread_handle(), __ATOMIC_RELEASE);
	start_all(wait_by_advice);
	be_waited_for("advice");
	begin = seconds_of(CLOCK_MONOTONIC);
	__atomic_store_n(&s->go, 1, __ATOMIC_RELEASE);
	fg_section_end();
	while (value(&s->went_on) < (uint64_t)share_of_each() * (uint64_t)processes)
		sleep_ms(1);
	printf("advice: all went on after %.2f s\n", seconds_of(CLOCK_MONOTONIC) - begin);
	end_all();
}

int main(int argc, char **argv)
{
	const char *only = "";

	if (argc > 1)
		waiters = atoi(argv[1]);
	if (argc > 2)
		processes = atoi(argv[2]);
	if (argc > 3)
		only = argv[3];
	CHECK(processes > 1 && processes <= MOST_PROCESSES && waiters >= processes);
	check_watchdog(WATCHDOG_S);
	setvbuf(stdout, NULL, _IOLBF, 0);
	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(s != MAP_FAILED);
	if (strcmp(only, "advice") != 0) {
		at_the_mutex(false);
		at_the_mutex(true);
	}
	if (strcmp(only, "mutex") != 0)
		by_advice();
	return 0;
}
