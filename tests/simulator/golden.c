/* SPDX-License-Identifier: MIT */
/* The same seed gives the same bits on every machine: threads that take a lock, sleep, yield, compute and have nice
 * levels, on a machine with hyperthreads. Prints a checksum of when each of them did what, in virtual time.
 *
 * Its accesses are the same whichever compiler made it, and however that optimised: by exchanges and additions, of
 * variables that begin a line. Those of other programs are not. */
#include <linux/futex.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/simulator/simulated.h"

#define THREADS 12
#define ROUNDS 200
#define PRIME 0x100000001b3u /* of FNV-1a, of eight bytes at once */

static uint32_t word __attribute__((aligned(64)));
static uint64_t sum __attribute__((aligned(64)));
static pthread_t threads[THREADS] __attribute__((aligned(64)));

static void lock(void)
{
	if (fg_xchg_acquire(&word, 1) == 0)
		return;
	while (fg_xchg_acquire(&word, 2) != 0)
		syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

static void unlock(void)
{
	if (fg_xchg_release(&word, 0) == 2)
		syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void *take_turns(void *argument)
{
	uint64_t i = (uint64_t)(uintptr_t)argument, hash = i;

	setpriority(PRIO_PROCESS, (id_t)gettid(), (int)(i % 3));
	for (uint64_t round = 0; round < ROUNDS; round++) {
		lock();
		for (uint64_t k = 0; k < i; k++)
			fg_pause();
		unlock();
		hash = (hash ^ fg_cycles()) * PRIME;
		hash = (hash ^ (uint64_t)sched_getcpu()) * PRIME;
		if (round % 16 == i)
			usleep(20);
		if (round % 32 == i)
			sched_yield();
	}
	fg_fetch_add_relaxed(&sum, hash);
	return NULL;
}

int fgb_main(int argc, char **argv)
{
	uint64_t ended;

	(void)argc;
	(void)argv;
	for (uint64_t i = 0; i < THREADS; i++)
		assert(pthread_create(&threads[i], NULL, take_turns, (void *)(uintptr_t)i) == 0);
	for (int i = 0; i < THREADS; i++)
		assert(pthread_join(threads[i], NULL) == 0);
	ended = fg_cycles();
	printf("%016lx after %lu cycles\n", fg_load_relaxed(&sum), ended);
	return 0;
}
