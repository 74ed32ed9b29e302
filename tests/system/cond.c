/* SPDX-License-Identifier: MIT */
/* fg_cond with fg_mutex: order, time, broadcasts, forks, memory that goes, and no signal lost. Threads wait for one
 * another's state, never for time to pass. */
#include <flexguard/cond.h>

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/check.h"

#define THREADS 8

static struct fg_mutex m = FG_MUTEX_INIT;
static struct fg_cond c = FG_COND_INIT;
static int waiting, turn, released, order[THREADS]; /* protected by m */

static struct timespec from_now(clockid_t clock, long ns)
{
	struct timespec t;

	clock_gettime(clock, &t);
	t.tv_sec += (t.tv_nsec + ns) / 1000000000;
	t.tv_nsec = (t.tv_nsec + ns) % 1000000000;
	return t;
}

/* Until so many threads wait: each counts itself with the mutex, which it gives up when it is in the list. */
static void await_waiting(int n)
{
	for (bool there = false; !there; sched_yield()) {
		fg_mutex_lock(&m);
		there = waiting == n;
		fg_mutex_unlock(&m);
	}
}

static void *wait_turn(void *cond)
{
	fg_mutex_lock(&m);
	order[waiting++] = (int)syscall(SYS_gettid);
	fg_cond_wait(cond, &m);
	CHECK_IS(turn, 1);
	CHECK_IS(order[released++], syscall(SYS_gettid));
	waiting--;
	turn = 0;
	fg_mutex_unlock(&m);
	return NULL;
}

/* One signal releases one thread, the one that came first. One that nobody waits for is not kept. */
static void signals_in_order(void)
{
	pthread_t threads[THREADS];

	fg_cond_signal(&c);
	released = 0;
	for (int i = 0; i < THREADS; i++) {
		threads[i] = check_thread(wait_turn, &c);
		await_waiting(i + 1);
	}
	for (int i = 0; i < THREADS; i++) {
		fg_mutex_lock(&m);
		turn = 1;
		if (i % 2)
			fg_cond_signal(&c);
		fg_mutex_unlock(&m);
		if (i % 2 == 0)
			fg_cond_signal(&c);
		await_waiting(THREADS - i - 1);
	}
	for (int i = 0; i < THREADS; i++)
		check_join(threads[i]);
}

static void times_out(void)
{
	const clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC};
	struct timespec until = {0, 0}, invalid = {0, 1000000000}, negative = {-1, 0}, now;

	fg_mutex_lock(&m);
	for (int i = 0; i < 2; i++) {
		CHECK_IS(fg_cond_timedwait(&c, &m, clocks[i], &until), ETIMEDOUT);
		CHECK_IS(fg_cond_timedwait(&c, &m, clocks[i], &negative), ETIMEDOUT);
		CHECK_IS(fg_cond_timedwait(&c, &m, clocks[i], &invalid), EINVAL);
		until = from_now(clocks[i], 3000000);
		CHECK_IS(fg_cond_timedwait(&c, &m, clocks[i], &until), ETIMEDOUT);
		clock_gettime(clocks[i], &now);
		CHECK(now.tv_sec > until.tv_sec || (now.tv_sec == until.tv_sec && now.tv_nsec >= until.tv_nsec));
		CHECK_IS(fg_mutex_trylock(&m), EBUSY);
		until = (struct timespec){0, 0};
	}
	CHECK_IS(fg_cond_timedwait(&c, &m, CLOCK_PROCESS_CPUTIME_ID, &until), EINVAL);
	fg_mutex_unlock(&m);
}

static void *wait_for_all(void *cond)
{
	fg_mutex_lock(&m);
	waiting++;
	fg_cond_wait(cond, &m);
	released++;
	waiting--;
	fg_mutex_unlock(&m);
	return NULL;
}

/* All that wait, and the memory goes at once: waiters do not touch it after that. */
static void broadcasts(bool holding)
{
	pthread_t threads[THREADS];

	for (int round = 0; round < 20; round++) {
		struct fg_cond *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		CHECK(mapped != MAP_FAILED);
		released = 0;
		for (int i = 0; i < THREADS; i++)
			threads[i] = check_thread(wait_for_all, mapped);
		await_waiting(THREADS);
		if (holding)
			fg_mutex_lock(&m);
		fg_cond_broadcast(mapped);
		ok(munmap(mapped, 4096));
		if (holding)
			fg_mutex_unlock(&m);
		for (int i = 0; i < THREADS; i++)
			check_join(threads[i]);
		CHECK_IS(released, THREADS);
	}
}

static struct fg_cond filled = FG_COND_INIT, emptied = FG_COND_INIT;
static long items, produced, consumed, to_produce; /* protected by m */
#define CAPACITY 3

static bool wait_a_bit(struct fg_cond *cond, uint32_t dice)
{
	struct timespec until = from_now(dice & 1 ? CLOCK_REALTIME : CLOCK_MONOTONIC, dice >> 8 & 0x1ffff);

	if (dice & 6) {
		fg_cond_wait(cond, &m);
		return true;
	}
	return fg_cond_timedwait(cond, &m, dice & 1 ? CLOCK_REALTIME : CLOCK_MONOTONIC, &until) == 0;
}

/* Each item is signalled once. A signal that a thread consumes without a change, as one that times out and is granted
 * at the same time would, leaves an item behind for ever. */
static void *produce(void *seed)
{
	uint32_t dice = (uint32_t)(uintptr_t)seed * 2654435761u | 1;

	for (;;) {
		fg_mutex_lock(&m);
		while (items == CAPACITY && produced < to_produce)
			wait_a_bit(&emptied, random_from(&dice));
		if (produced == to_produce)
			break;
		items++;
		produced++;
		fg_cond_signal(&filled);
		fg_mutex_unlock(&m);
	}
	fg_cond_broadcast(&filled);
	fg_cond_broadcast(&emptied);
	fg_mutex_unlock(&m);
	return NULL;
}

static void *consume(void *seed)
{
	uint32_t dice = (uint32_t)(uintptr_t)seed * 2654435761u | 1;

	for (;;) {
		fg_mutex_lock(&m);
		while (items == 0 && produced < to_produce)
			wait_a_bit(&filled, random_from(&dice));
		if (items == 0)
			break;
		items--;
		consumed++;
		fg_mutex_unlock(&m);
		fg_cond_signal(&emptied);
	}
	fg_mutex_unlock(&m);
	return NULL;
}

static void loses_nothing(void)
{
	pthread_t threads[THREADS];

	to_produce = 100000;
	for (int i = 0; i < THREADS; i++)
		threads[i] = check_thread(i % 2 ? produce : consume, (void *)(uintptr_t)(i + 1));
	for (int i = 0; i < THREADS; i++)
		check_join(threads[i]);
	CHECK_IS(consumed, produced);
}

static struct timespec deadline;
static bool second_released;

static void *wait_until_deadline(void *result)
{
	fg_mutex_lock(&m);
	waiting++;
	*(int *)result = fg_cond_timedwait(&c, &m, CLOCK_MONOTONIC, &deadline);
	fg_mutex_unlock(&m);
	return NULL;
}

static void *wait_second(void *unused)
{
	fg_mutex_lock(&m);
	waiting++;
	fg_cond_wait(&c, &m);
	second_released = true;
	fg_mutex_unlock(&m);
	return unused;
}

/* A signal at about the deadline of the thread that waits longest: it releases that one, or the second, not none. */
static void signals_at_the_deadline(void)
{
	struct timespec now;
	uint32_t dice = 1;

	for (int round = 0; round < 600; round++) {
		long early = (long)(random_from(&dice) % 60000) - 55000;
		pthread_t first, second;
		int result = -1;

		waiting = 0;
		second_released = false;
		deadline = from_now(CLOCK_MONOTONIC, 400000);
		first = check_thread(wait_until_deadline, &result);
		await_waiting(1);
		second = check_thread(wait_second, NULL);
		await_waiting(2);
		do
			clock_gettime(CLOCK_MONOTONIC, &now);
		while ((now.tv_sec - deadline.tv_sec) * 1000000000 + now.tv_nsec - deadline.tv_nsec < -early);
		fg_cond_signal(&c);
		check_join(first);
		if (result == 0)
			fg_cond_signal(&c);
		check_join(second);
		CHECK(second_released && (result == 0 || result == ETIMEDOUT));
	}
	waiting = 0;
}

/* The child has no waiters, though its copy of the memory says so. */
static void forks(void)
{
	struct timespec until = from_now(CLOCK_MONOTONIC, 1000000);
	pthread_t thread = check_thread(wait_for_all, &c);
	int status;
	pid_t child;

	await_waiting(1);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		check_watchdog(500);
		waiting = 0;
		fg_cond_broadcast(&c);
		fg_mutex_lock(&m);
		CHECK_IS(fg_cond_timedwait(&c, &m, CLOCK_MONOTONIC, &until), ETIMEDOUT);
		fg_mutex_unlock(&m);
		thread = check_thread(wait_for_all, &c);
		await_waiting(1);
		fg_cond_signal(&c);
		check_join(thread);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK_IS(status, 0);
	CHECK_IS(waiting, 1);
	fg_cond_broadcast(&c);
	check_join(thread);
}

int main(void)
{
	check_watchdog(500);
	_Static_assert(sizeof(struct fg_cond) == 8, "as the header says");
	signals_in_order();
	times_out();
	broadcasts(false);
	broadcasts(true);
	loses_nothing();
	signals_at_the_deadline();
	forks();
	return 0;
}
