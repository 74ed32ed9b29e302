/* SPDX-License-Identifier: MIT */
/* The shared-memory-access loop of one thread as one would write it by hand: lock, two lines, unlock, wait 100 cycles.
 * Prints the CPU time per operation over half a second in ns, to compare with `cpu_ns_per_op` of
 *   fg-bench shm --lock posix --threads 1 --seconds 0.5  */
#include <pthread.h>
#include <stdio.h>

#include "worker/bench.h"
#include "worker/clock.h"

static pthread_mutex_t mutex __attribute__((aligned(FGB_ALONE)));
static struct fgb_line lines[2] __attribute__((aligned(FGB_ALONE)));
static uint32_t stop __attribute__((aligned(FGB_ALONE)));

static void *work(void *unused)
{
	(void)unused;
	while (!fg_load_relaxed(&stop)) {
		uint64_t released;

		pthread_mutex_lock(&mutex);
		lines[0].value++;
		lines[1].value++;
		pthread_mutex_unlock(&mutex);
		released = fg_cycles_ordered();
		while (fg_cycles() - released < 100)
			;
	}
	return NULL;
}

int main(void)
{
	struct timespec used;
	pthread_t thread;

	if (pthread_create(&thread, NULL, work, NULL))
		return 1;
	clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = 500000000}, NULL);
	fg_store_relaxed(&stop, 1);
	pthread_join(thread, NULL);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	printf("%.2f ns per operation\n", ((double)used.tv_sec * 1e9 + (double)used.tv_nsec) / (double)lines[0].value);
	return 0;
}
