/* SPDX-License-Identifier: MIT */
/* Ten million mutexes, all held at once by one thread, take no memory but their own: under glibc, and under the locks
 * that keep everything in the mutex. */
#include <sys/mman.h>

#include "tests/posix/posix.h"

#define MUTEXES 10000000ul
#define BESIDES 4 /* KiB: one page, for the mutexes do not end at the end of one */
#define SKIPPED 77

/* The number in the line of `path` that begins so, in KiB, or -1. */
static long kib(const char *path, const char *format)
{
	char line[256];
	long found = -1;
	FILE *file = fopen(path, "r");

	CHECK(file);
	while (found < 0 && fgets(line, sizeof(line), file))
		if (sscanf(line, format, &found) != 1)
			found = -1;
	fclose(file);
	return found;
}

/* Counted page by page, unlike what /proc/self/status has. */
static long anonymous(void)
{
	return kib("/proc/self/smaps_rollup", "Anonymous: %ld kB");
}

static void *try_them(void *all)
{
	pthread_mutex_t *mutexes = all;

	for (unsigned long i = 0; i < MUTEXES; i += MUTEXES / 1000)
		CHECK_IS(pthread_mutex_trylock(&mutexes[i]), EBUSY);
	return NULL;
}

int main(void)
{
	const size_t bytes = MUTEXES * sizeof(pthread_mutex_t);
	pthread_mutex_t *mutexes, first = PTHREAD_MUTEX_INITIALIZER;
	long before, after;

	if (kib("/proc/meminfo", "MemAvailable: %ld kB") < (long)(bytes / 1024) * 2) {
		fprintf(stderr, "ten million mutexes need more memory than is free\n");
		return SKIPPED;
	}
	mutexes = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(mutexes != MAP_FAILED);
	(void)madvise(mutexes, bytes, MADV_NOHUGEPAGE); /* a kernel without huge pages does not know it */
	ok(pthread_mutex_lock(&first));
	ok(pthread_mutex_unlock(&first));
	CHECK(anonymous() > 0); /* the stream's buffer is there, too */
	before = anonymous();
	for (unsigned long i = 0; i < MUTEXES; i++) {
		if (i % 2) /* the others are what PTHREAD_MUTEX_INITIALIZER is: zeroes */
			ok(pthread_mutex_init(&mutexes[i], NULL));
		ok(pthread_mutex_lock(&mutexes[i]));
	}
	after = anonymous();
	CHECK(after - before <= (long)(bytes / 1024) + BESIDES, "%ld KiB more for %zu KiB of mutexes", after - before,
	      bytes / 1024);
	elsewhere(try_them, mutexes);
	for (unsigned long i = 0; i < MUTEXES; i++)
		ok(pthread_mutex_unlock(&mutexes[i]));
	CHECK(anonymous() - after <= 64, "unlocking took memory"); /* the other thread's stack */
	for (unsigned long i = 0; i < MUTEXES; i++) {
		ok(pthread_mutex_trylock(&mutexes[i]));
		ok(pthread_mutex_unlock(&mutexes[i]));
		ok(pthread_mutex_destroy(&mutexes[i]));
	}
	ok(munmap(mutexes, bytes));
	return 0;
}
