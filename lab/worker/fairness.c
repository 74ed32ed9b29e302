/* SPDX-License-Identifier: MIT */
#include "worker/fairness.h"

#include <stdlib.h>

static int busier_first(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x < y) - (x > y);
}

struct fgb_fairness fgb_fairness(uint64_t *ops, unsigned int threads)
{
	double total = 0, busier = 0, middle = 0;
	unsigned int half = (threads + 1) / 2;

	qsort(ops, threads, sizeof(*ops), busier_first);
	for (unsigned int i = 0; i < threads; i++) {
		total += (double)ops[i];
		if (i < half)
			busier += (double)ops[i];
	}
	if (total == 0)
		return (struct fgb_fairness){0.5, 0.5};
	if (threads % 2)
		middle = (double)ops[half - 1];
	return (struct fgb_fairness){busier / total, (busier - middle / 2) / total};
}
