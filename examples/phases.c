/* SPDX-License-Identifier: MIT */
/* Threads that work in phases, with a barrier between them: prefix sums, each phase twice as far. */
#include <flexguard/barrier.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

#define THREADS 4

static struct fg_barrier barrier = FG_BARRIER_INIT(THREADS);
static long sums[2][THREADS];

static void *work(void *number)
{
	int me = (int)(intptr_t)number, phase = 0;

	sums[0][me] = me + 1;
	for (int distance = 1; distance < THREADS; distance *= 2, phase ^= 1) {
		fg_barrier_wait(&barrier);
		sums[!phase][me] = sums[phase][me] + (me >= distance ? sums[phase][me - distance] : 0);
	}
	if (fg_barrier_wait(&barrier)) /* true in one thread */
		sums[!phase][0] = sums[phase][THREADS - 1];
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i))
			return 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("the sum of 1 to %d is %ld\n", THREADS, sums[1][0]);
	return sums[1][0] != THREADS * (THREADS + 1) / 2 || fg_barrier_destroy(&barrier) != 0;
}
