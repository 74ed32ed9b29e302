/* SPDX-License-Identifier: MIT */
/* A spin barrier of a program's own, as a pool of workers has it. It links nothing: where FlexGuard is not installed, a
 * waiter spins a little, yields a few times, and sleeps. */
#include <flexguard/advice_optional.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#define THREADS 4
#define PHASES 2000

static atomic_uint arrived, phase;
static unsigned sums[THREADS];

static void barrier(void)
{
	unsigned now = atomic_load_explicit(&phase, memory_order_relaxed);
	struct fg_wait w = {0, THREADS - 1, 0};

	fg_section_end(); /* nobody waits for this thread any more */
	if (atomic_fetch_add_explicit(&arrived, 1, memory_order_acq_rel) == THREADS - 1) {
		atomic_store_explicit(&arrived, 0, memory_order_relaxed);
		atomic_store_explicit(&phase, now + 1, memory_order_release);
	}
	while (atomic_load_explicit(&phase, memory_order_acquire) == now)
		(void)fg_wait_once(&w);
	fg_section_begin();
}

static void *work(void *number)
{
	unsigned me = (unsigned)(uintptr_t)number;

	(void)fg_thread_handle(); /* so that the others learn which CPU this thread waits for */
	fg_section_begin();
	for (unsigned i = 0; i < PHASES; i++) {
		sums[me] += i;
		barrier();
		if (sums[(me + 1) % THREADS] != sums[me]) /* another thread's, of the same phase */
			return (void *)1;
		barrier();
	}
	fg_section_end();
	return NULL;
}

int main(void)
{
	int found = fg_advice_start(), wrong = 0;
	pthread_t threads[THREADS];
	void *result;

	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)i))
			return 1;
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &result);
		wrong |= result != NULL;
	}
	printf("%u phases; %s\n", atomic_load(&phase), found ? "with FlexGuard" : "FlexGuard is not installed");
	return wrong || atomic_load(&phase) != 2 * PHASES;
}
