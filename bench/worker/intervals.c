/* SPDX-License-Identifier: MIT */
#include "bench/worker/intervals.h"

#include <stdio.h>
#include <stdlib.h>

#include "bench/worker/fairness.h"
#include "bench/worker/status.h"

int fgb_intervals_init(struct fgb_intervals *w, uint32_t seconds, uint32_t threads)
{
	*w = (struct fgb_intervals){.seconds = seconds, .threads = threads};
	w->before = calloc(threads, sizeof(*w->before));
	w->inside = calloc(threads, sizeof(*w->inside));
	if (w->before && w->inside)
		return 0;
	fputs("fg-bench: not enough memory\n", stderr);
	return FGB_FAILED;
}

void fgb_intervals_free(struct fgb_intervals *w)
{
	free(w->before);
	free(w->inside);
}

void fgb_intervals_second(struct fgb_intervals *w, uint64_t second,
			  uint64_t (*ops_of)(const void *argument, uint32_t i), const void *argument)
{
	struct fgb_fairness fairness;

	if (second % w->seconds)
		return;
	for (uint32_t i = 0; i < w->threads; i++) {
		uint64_t ops = ops_of(argument, i);

		w->inside[i] = ops - w->before[i];
		w->before[i] = ops;
	}
	fairness = fgb_fairness(w->inside, w->threads);
	w->count++;
	w->factor += fairness.factor;
	w->normalised += fairness.normalised;
	if (fairness.factor > w->worst_factor)
		w->worst_factor = fairness.factor;
	if (fairness.normalised > w->worst_normalised)
		w->worst_normalised = fairness.normalised;
}

void fgb_intervals_print(const struct fgb_intervals *w)
{
	if (!w->count)
		return;
	printf("\"fairness_%us\":{\"intervals\":%u,\"factor\":%.4f,\"worst_factor\":%.4f,\"normalised\":%.4f,"
	       "\"worst_normalised\":%.4f},",
	       w->seconds, w->count, w->factor / w->count, w->worst_factor, w->normalised / w->count,
	       w->worst_normalised);
}
