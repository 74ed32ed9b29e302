/* SPDX-License-Identifier: MIT */
/* A million locks that several threads use, and a pool (locks/parts/extended.h) that has nothing left.
 *
 *   many_locks LOCKS THREADS
 *
 * The threads sweep over all locks together, so that they meet at many of them, and come back to a few hot ones all the
 * time. Then the pool is drained and all begins anew with locks that were destroyed: they must do without. In the end
 * everything is given back, and the pool must have lost nothing. */
#include FGI_LOCK_FILE

#include <sys/resource.h>

#include "locks/parts/extended.h"
#include "runtime/futex.h"
#include "runtime/node.h"
#include "tests/check.h"
#include "tests/sections.h"

#define HOT 8u
#define SWEEPS 2

struct counted {
	struct fg_lock lock;
	uint32_t count;
};

static struct counted *locks, hot[HOT];
static uint32_t number;

static void add(struct counted *c, bool slowly)
{
	fgi_lock(&c->lock);
	c->count++;
	if (slowly)
		fgi_nap(20000); /* the others run into us */
	fgi_unlock(&c->lock);
}

static void *sweep(void *unused)
{
	(void)unused;
	for (int round = 0; round < SWEEPS; round++) {
		for (uint32_t i = 0; i < number; i++) {
			add(&locks[i], i % 2048 == 0);
			if (i % 16 == 0)
				add(&hot[i / 16 % HOT], false);
		}
	}
	return NULL;
}

static void sweep_together(unsigned int threads)
{
	pthread_t thread[64];

	for (unsigned int i = 0; i < threads; i++)
		thread[i] = check_thread(sweep, NULL);
	for (unsigned int i = 0; i < threads; i++)
		check_join(thread[i]);
}

static void destroy(struct counted *c)
{
	CHECK(fgi_trylock(&c->lock), "a lock is left locked");
	fgi_unlock(&c->lock);
#ifdef FGI_LOCK_HAS_DESTROY
	fgi_lock_destroy(&c->lock);
#endif
	memset(&c->lock, 0, sizeof(c->lock));
}

static void destroy_all(void)
{
	for (uint32_t i = 0; i < number; i++)
		destroy(&locks[i]);
	for (uint32_t i = 0; i < HOT; i++)
		destroy(&hot[i]);
}

/* Returns links to all objects that were left; `n` is how many there are of this size. */
static uint32_t *drain(enum fgi_extended_size size, uint32_t n)
{
	uint32_t *link = calloc(n + 1, sizeof(*link)), i = 0;

	CHECK(link);
	while (fgi_extended_attach(&link[i], size))
		CHECK(++i <= n, "more objects than there are");
	CHECK(i == n && fgi_extended_used(size) == n, "%u of %u objects: some were lost", i, n);
	return link;
}

static void give_back(enum fgi_extended_size size, uint32_t n, uint32_t *link)
{
	for (uint32_t i = 0; i < n; i++)
		fgi_extended_detach(&link[i], size);
	free(link);
}

static void check_counts(uint32_t each)
{
	uint64_t hot_sum = 0;

	for (uint32_t i = 0; i < number; i++)
		CHECK(locks[i].count == each, "lost update at lock %u: %u of %u", i, locks[i].count, each);
	for (uint32_t i = 0; i < HOT; i++)
		hot_sum += hot[i].count;
	CHECK(hot_sum == (uint64_t)each * ((number + 15) / 16), "lost update at a hot lock");
}

int main(int argc, char **argv)
{
	uint32_t *small, *large, met;
	unsigned int threads;
	struct rusage usage;

	CHECK(argc == 3, "usage: many_locks LOCKS THREADS");
	number = (uint32_t)atoi(argv[1]);
	threads = (unsigned int)atoi(argv[2]);
	CHECK(number > 0 && threads >= 1 && threads <= 64);
	locks = calloc(number, sizeof(*locks));
	CHECK(locks);
	check_watchdog(500);
	sweep_together(threads);
	met = fgi_extended_used(FGI_EXTENDED_SMALL) + fgi_extended_used(FGI_EXTENDED_LARGE);
	getrusage(RUSAGE_SELF, &usage);
	destroy_all();
	small = drain(FGI_EXTENDED_SMALL, FGI_EXTENDED_SMALL_COUNT);
	large = drain(FGI_EXTENDED_LARGE, FGI_EXTENDED_LARGE_COUNT);
	sweep_together(threads);
	check_counts(2 * SWEEPS * threads);
	destroy_all();
	give_back(FGI_EXTENDED_SMALL, FGI_EXTENDED_SMALL_COUNT, small);
	give_back(FGI_EXTENDED_LARGE, FGI_EXTENDED_LARGE_COUNT, large);
	free(drain(FGI_EXTENDED_SMALL, FGI_EXTENDED_SMALL_COUNT));
	CHECK_SECTIONS(0);
	printf("%u locks, %u threads: %u objects, %u nodes, %ld KiB in all\n", number, threads, met, fgi_nodes_used(),
	       usage.ru_maxrss);
	return 0;
}
