/* SPDX-License-Identifier: MIT */
/* Threads that allocate and free by jemalloc as under MALLOC_CONF=narenas:ARENAS,tcache:false. An arena has a mutex for
 * each size of blocks, and here all blocks have one size. A thread puts a new block into a random place of a table that
 * all share, and frees the block that was there, which any thread may have allocated. Prints allocations a second.
 *
 *   arenas THREADS ARENAS BYTES SECONDS */
#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PLACES 4096

struct thread {
	pthread_t id;
	unsigned arena;
	uint64_t random, blocks, wrong;
};

static _Atomic(uint64_t *) table[PLACES];
static atomic_bool stop;
static size_t bytes;

static uint64_t draw(uint64_t *random)
{
	*random = *random * 6364136223846793005u + 1442695040888963407u;
	return *random >> 33;
}

/* A block begins with a number, and ends with the last byte of it. */
static uint64_t *new_block(uint64_t number)
{
	uint64_t *block = (uint64_t *)malloc(bytes);

	if (!block)
		abort();
	*block = number;
	((uint8_t *)block)[bytes - 1] = (uint8_t)number;
	return block;
}

static bool is_whole(const uint64_t *block)
{
	return ((const uint8_t *)block)[bytes - 1] == (uint8_t)*block;
}

static void *work(void *argument)
{
	struct thread *t = (struct thread *)argument;

	bool caches = false;

	if (mallctl("thread.arena", NULL, NULL, &t->arena, sizeof(t->arena)) ||
	    mallctl("thread.tcache.enabled", NULL, NULL, &caches, sizeof(caches)))
		abort();
	for (; !atomic_load(&stop); t->blocks++) {
		uint64_t *block = new_block(draw(&t->random));

		block = atomic_exchange(&table[draw(&t->random) % PLACES], block);
		t->wrong += block && !is_whole(block);
		free(block);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned long threads = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	unsigned arenas = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
	double seconds = argc > 4 ? strtod(argv[4], NULL) : 0;
	struct thread *all;
	struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
	uint64_t blocks = 0, wrong = 0;

	bytes = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
	if (argc != 5 || !threads || !arenas || bytes < 2 * sizeof(uint64_t) || seconds <= 0) {
		fprintf(stderr, "usage: %s THREADS ARENAS BYTES SECONDS\n", argv[0]);
		return 2;
	}
	all = (struct thread *)calloc(threads, sizeof(*all));
	if (!all)
		return 1;
	for (unsigned long i = 0; i < threads; i++) {
		all[i].random = i + 1;
		all[i].arena = (unsigned)i % arenas;
		if (pthread_create(&all[i].id, NULL, work, &all[i]))
			return 1;
	}
	nanosleep(&time, NULL);
	atomic_store(&stop, true);
	for (unsigned long i = 0; i < threads; i++) {
		pthread_join(all[i].id, NULL);
		blocks += all[i].blocks;
		wrong += all[i].wrong;
	}
	printf("%.0f allocations a second\n", (double)blocks / seconds);
	if (wrong)
		fprintf(stderr, "%lu blocks are damaged\n", (unsigned long)wrong);
	free(all);
	return wrong != 0;
}
