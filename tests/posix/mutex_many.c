/* SPDX-License-Identifier: MIT */
/* Ten million mutexes (a large program was seen to have 266,000) take no memory but their own, under glibc and under
 * every lock, also when threads have met at many of them. */
#include "tests/posix/posix.h"

#define MUTEXES 10000000u
#define THREADS 4
#define CROWDED 64u /* each so many-th is held while others come */
#define BESIDES 256 /* KiB: stacks of the threads, and what a process needs once. glibc takes 30 of them */

static pthread_mutex_t *mutexes;
static long counts[MUTEXES];
static pthread_barrier_t together;

/* Anonymous memory of this process, in KiB. */
static long anonymous(void)
{
	char line[256];
	long kib = -1;
	FILE *status = fopen("/proc/self/status", "r");

	CHECK(status);
	while (fgets(line, sizeof(line), status))
		if (sscanf(line, "RssAnon: %ld", &kib) == 1)
			break;
	fclose(status);
	CHECK(kib > 0);
	return kib;
}

static void *lock_all(void *unused)
{
	int error = pthread_barrier_wait(&together);

	CHECK(error == 0 || error == PTHREAD_BARRIER_SERIAL_THREAD);
	for (unsigned int i = 0; i < MUTEXES; i++) {
		ok(pthread_mutex_lock(&mutexes[i]));
		counts[i]++;
		if (i % CROWDED == 0 && check_goes_on((int)i, MUTEXES))
			sched_yield(); /* the others come; beside other programs a yield costs time slices of theirs */
		ok(pthread_mutex_unlock(&mutexes[i]));
	}
	return unused;
}

static void crowd(int threads)
{
	pthread_t thread[THREADS];

	ok(pthread_barrier_init(&together, NULL, (unsigned int)threads));
	for (int i = 0; i < threads; i++)
		thread[i] = check_thread(lock_all, NULL);
	for (int i = 0; i < threads; i++)
		check_join(thread[i]);
	ok(pthread_barrier_destroy(&together));
}

int main(void)
{
	const long own = (long)(MUTEXES * sizeof(*mutexes) / 1024);
	long before, after;

	memset(counts, 0, sizeof(counts));
	mutexes = calloc(MUTEXES, sizeof(*mutexes));
	CHECK(mutexes);
	before = anonymous();
	for (unsigned int i = 0; i < MUTEXES; i++)
		ok(pthread_mutex_init(&mutexes[i], NULL));
	crowd(at_most(THREADS));
	after = anonymous();
	for (unsigned int i = 0; i < MUTEXES; i++)
		CHECK_IS(counts[i], at_most(THREADS));
	CHECK(after - before <= own + BESIDES, "%ld KiB more for %ld KiB of mutexes", after - before, own);
	for (unsigned int i = 0; i < MUTEXES; i++)
		ok(pthread_mutex_destroy(&mutexes[i]));
	return 0;
}
