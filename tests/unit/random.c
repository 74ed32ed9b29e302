/* SPDX-License-Identifier: MIT */
/* What cna and malthusian draw at random (locks/parts/random.h): each thread has a sequence of its own, and one draw in
 * n wins. */
#include <pthread.h>

#include "locks/parts/random.h"
#include "tests/check.h"

#define THREADS 16
#define DRAWS 100000u
#define ONE_IN 50u

struct drawn {
	pthread_t thread;
	uint64_t first; /* of 64 draws, one in two of which wins */
	uint32_t won;   /* of DRAWS, one in ONE_IN of which wins */
};

static void *draw(void *argument)
{
	struct drawn *d = argument;

	for (int i = 0; i < 64; i++)
		d->first = d->first << 1 | fgi_once_in(2);
	for (uint32_t i = 0; i < DRAWS; i++)
		d->won += fgi_once_in(ONE_IN);
	return NULL;
}

int main(void)
{
	static struct drawn drawn[THREADS];

	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&drawn[i].thread, NULL, draw, &drawn[i]) == 0, "thread %d", i);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(drawn[i].thread, NULL) == 0, "thread %d", i);
	for (int i = 0; i < THREADS; i++) {
		for (int k = 0; k < i; k++)
			CHECK(drawn[i].first != drawn[k].first, "threads %d and %d drew the same", i, k);
		/* 2,000 on average, with a standard deviation of 44 */
		CHECK(drawn[i].won > 1600 && drawn[i].won < 2400, "thread %d won %u times", i, drawn[i].won);
	}
	return 0;
}
