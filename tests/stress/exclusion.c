/* SPDX-License-Identifier: MIT */
/* Mutual exclusion, no lost update, no hang (I1, I2), while the mode changes all the time.
 *
 *   exclusion OPERATIONS THREADS...
 *
 * For each number of threads: all of them take locks from a small set at random, in the three ways there are, and add
 * to counters that only the lock protects. Every round ends its threads, so nodes pass from thread to thread. The
 * rounds begin anew until the mode has changed often enough. */
#include FGI_LOCK_FILE

#include "tests/sections.h"
#include "tests/stress/hostile_monitor.h"

#define LOCKS 3
#define THREADS 1024 /* at most */

static struct {
	struct fg_lock lock;
	uint64_t count, check;
} __attribute__((aligned(128))) shared[LOCKS];

static uint64_t operations;
static uint64_t timeouts, refusals;

static void critical_section(unsigned int i)
{
	CHECK(shared[i].count == shared[i].check, "two threads are in");
	shared[i].count++;
	CHECK(fgi_sections() >= 1, "the holder does not say so");
	shared[i].check++;
}

/* Returns whether it got in. */
static bool enter(unsigned int i, uint64_t r)
{
	struct timespec soon;

	switch (r % 8) {
	case 0:
		if (fgi_trylock(&shared[i].lock))
			return true;
		fg_fetch_add_relaxed(&refusals, 1);
		return false;
	case 1:
		clock_gettime(CLOCK_MONOTONIC, &soon);
		soon.tv_nsec += (long)((r >> 8) % 40000);
		if (soon.tv_nsec >= 1000000000) {
			soon.tv_nsec -= 1000000000;
			soon.tv_sec++;
		}
		if (fgi_timedlock(&shared[i].lock, FGI_DEADLINE(CLOCK_MONOTONIC, &soon)) == 0)
			return true;
		fg_fetch_add_relaxed(&timeouts, 1);
		return false;
	default:
		fgi_lock(&shared[i].lock);
		return true;
	}
}

static void *worker(void *argument)
{
	uint64_t seed = 0x9e3779b97f4a7c15u * ((uintptr_t)argument + 1), entered[LOCKS] = {0};

	for (uint64_t n = 0; n < operations; n++) {
		uint64_t r = hostile_random(&seed);
		unsigned int i = (unsigned int)(r >> 32) % 16, k = i < LOCKS ? i : 0; /* lock 0 is the hot one */

		if (!enter(k, r >> 40))
			continue;
		critical_section(k);
		fgi_unlock(&shared[k].lock);
		entered[k]++;
	}
	CHECK_SECTIONS(0);
	CHECK(fg_thread.node == 0);
	uint64_t *result = malloc(sizeof(entered));
	CHECK(result);
	memcpy(result, entered, sizeof(entered));
	return result;
}

static void round_of(unsigned int threads, uint64_t total)
{
	static pthread_t thread[THREADS];
	uint64_t sum[LOCKS] = {0};

	CHECK(threads >= 1 && threads <= THREADS);
	memset(shared, 0, sizeof(shared));
	operations = total / threads;
	for (uintptr_t i = 0; i < threads; i++)
		thread[i] = check_thread(worker, (void *)(i + 1));
	for (unsigned int i = 0; i < threads; i++) {
		uint64_t *entered = check_join(thread[i]);

		for (unsigned int k = 0; k < LOCKS; k++)
			sum[k] += entered[k];
		free(entered);
	}
	for (unsigned int k = 0; k < LOCKS; k++) {
		CHECK(sum[k] == shared[k].count, "lost update: %lu of %lu", (unsigned long)shared[k].count,
		      (unsigned long)sum[k]);
		CHECK(fgi_trylock(&shared[k].lock), "a lock is left locked");
		fgi_unlock(&shared[k].lock);
	}
	printf("%2u threads: %lu operations, %lu refused, %lu timed out\n", threads,
	       (unsigned long)(operations * threads), (unsigned long)refusals, (unsigned long)timeouts);
	refusals = timeouts = 0;
}

int main(int argc, char **argv)
{
	CHECK(argc >= 3, "usage: exclusion OPERATIONS THREADS...");
	check_watchdog(600);
	setvbuf(stdout, NULL, _IOLBF, 0);
	hostile_start();
	do {
		for (int i = 2; i < argc; i++)
			round_of((unsigned int)atoi(argv[i]), strtoull(argv[1], NULL, 10));
	} while (!hostile_seen());
	hostile_stop();
	return 0;
}
