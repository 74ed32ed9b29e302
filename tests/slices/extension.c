/* SPDX-License-Identifier: MIT */
/* A lock with the kernel's time-slice extension, where there is one: extensions are granted and given back in time,
 * and mutual exclusion holds.
 *
 *   extension SECONDS THREADS
 *
 * 77: this kernel has no extension. */
#include <stdint.h>

static __thread uint64_t granted;
#define FGI_SLICE_GRANTED() (granted++)

#include FGI_LOCK_FILE

#include "tests/check.h"
#include "tests/sections.h"

static struct fg_lock lock;
static uint64_t in_section, check, operations, grants;
static uint32_t stop;

static void *worker(void *unused)
{
	uint64_t n = 0;

	(void)unused;
	while (!fg_load_relaxed(&stop)) {
		fgi_lock(&lock);
		CHECK(in_section == check, "two threads are in");
		in_section++;
		for (int i = 0; i < 20; i++)
			fg_pause();
		check++;
		fgi_unlock(&lock);
		n++;
	}
	CHECK_SECTIONS(0);
	CHECK(!fgi_slice_control->request, "a request outlives the section");
	fg_fetch_add_relaxed(&operations, n);
	fg_fetch_add_relaxed(&grants, granted);
	return NULL;
}

int main(int argc, char **argv)
{
	struct timespec seconds = {0};
	pthread_t threads[64];
	int n, error;

	CHECK(argc == 3, "usage: extension SECONDS THREADS");
	seconds.tv_sec = atoi(argv[1]);
	n = atoi(argv[2]);
	CHECK(n > 0 && n <= 64 && seconds.tv_sec > 0);
	check_watchdog((unsigned int)seconds.tv_sec + 120);
	error = fgi_slice_extension_start();
	if (error) {
		fprintf(stderr, "skipped: no time-slice extension (error %d)\n", error);
		return 77;
	}
	for (int i = 0; i < n; i++)
		threads[i] = check_thread(worker, NULL);
	nanosleep(&seconds, NULL);
	fg_store_relaxed(&stop, 1);
	for (int i = 0; i < n; i++)
		check_join(threads[i]);
	CHECK(operations == check && check == in_section, "lost update");
	printf("%lu operations, %lu extensions given back by the holder\n", (unsigned long)operations,
	       (unsigned long)grants);
	CHECK(grants > 0, "no extension was granted");
	return 0;
}
