/* SPDX-License-Identifier: MIT */
/* What lock and unlock cost when nobody else wants the lock: the best of many short batches, since noise only slows a
 * batch down and most batches are shorter than a timer tick apart.
 *
 * A second thread sleeps meanwhile: a program that uses locks has one, and glibc takes a mutex without atomic
 * instructions in a process that has a single thread. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/bench.h"
#include "worker/clock.h"
#include "worker/json.h"
#include "worker/options.h"

static void *sleep_for_ever(void *unused)
{
	(void)unused;
	for (;;)
		pause();
	return NULL;
}

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int measure(const struct fgb_lock *lock, uint64_t batches, uint64_t pairs)
{
	uint64_t *ns = calloc(batches, sizeof(*ns)), median;

	if (!ns) {
		fputs("fg-bench: not enough memory\n", stderr);
		return FGB_FAILED;
	}
	for (uint64_t i = 0; i < batches; i++) {
		uint64_t start = fgb_ns();

		lock->carried->pairs(pairs);
		ns[i] = fgb_ns() - start;
	}
	qsort(ns, batches, sizeof(*ns), ascending);
	median = ns[batches / 2];
	fgb_json_object(NULL);
	fgb_json_text("lock", lock->name);
	fgb_json_count("batches", batches);
	fgb_json_count("pairs_per_batch", pairs);
	fgb_json_rounded("ns_per_pair", (double)ns[0] / (double)pairs, 3);
	fgb_json_rounded("median_ns_per_pair", (double)median / (double)pairs, 3);
	fgb_json_end();
	free(ns);
	return 0;
}

static struct {
	const struct fgb_lock *lock;
	uint64_t batches, pairs;
	bool single;
} given = {.batches = 2000, .pairs = 5000};

const struct fgb_option fgb_uncontended_options[] = {
	{"--lock", "NAME", "see fg-bench --list", FGB_LOCK, 0, 0, {.lock = &given.lock}},
	FGB_OPTION_NUMBER("--batches", "batches; the fastest and the median are told", 1, 1e6, &given.batches),
	FGB_OPTION_NUMBER("--pairs", "times lock and unlock in a batch", 1, 1e9, &given.pairs),
	FGB_OPTION_FLAG("--single-threaded", "without a second, sleeping thread: the C library then skips its atomics",
			&given.single),
	FGB_OPTIONS_END,
};

int fgb_uncontended_main(int argc, char **argv)
{
	pthread_t sleeper;
	int error = fgb_parse(argc, argv, (const struct fgb_option *[]){fgb_uncontended_options, NULL});

	if (error)
		return error;
	if (!given.lock) {
		fputs("fg-bench: uncontended needs --lock NAME (see fg-bench --list)\n", stderr);
		return FGB_USAGE;
	}
	if (!fgb_available(given.lock))
		return FGB_UNAVAILABLE;
	error = given.single ? 0 : pthread_create(&sleeper, NULL, sleep_for_ever, NULL);
	if (error) {
		fprintf(stderr, "fg-bench: cannot create a thread: %s\n", strerror(error));
		return FGB_FAILED;
	}
	return measure(given.lock, given.batches, given.pairs);
}
