/* SPDX-License-Identifier: MIT */
#include "worker/intervals.h"

#include <stdio.h>
#include <stdlib.h>

#include "worker/fairness.h"
#include "worker/json.h"
#include "worker/status.h"

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
	char name[32];

	if (!w->count)
		return;
	snprintf(name, sizeof(name), "fairness_%us", w->seconds);
	fgb_json_object(name);
	fgb_json_count("intervals", w->count);
	fgb_json_rounded("factor", w->factor / w->count, 4);
	fgb_json_rounded("worst_factor", w->worst_factor, 4);
	fgb_json_rounded("normalised", w->normalised / w->count, 4);
	fgb_json_rounded("worst_normalised", w->worst_normalised, 4);
	fgb_json_end();
}
