/* SPDX-License-Identifier: MIT */
#include "worker/histogram.h"

void fgb_histogram_add(struct fgb_histogram *to, const struct fgb_histogram *from)
{
	to->count += from->count;
	to->sum += from->sum;
	if (from->max > to->max)
		to->max = from->max;
	for (unsigned int i = 0; i < FGB_BUCKETS; i++)
		to->bucket[i] += from->bucket[i];
}

static double middle(unsigned int bucket)
{
	unsigned int shift;

	if (bucket < 2 * FGB_SUB)
		return bucket;
	shift = (bucket >> FGB_SUB_BITS) - 1;
	return ((double)(FGB_SUB + bucket % FGB_SUB) + 0.5) * (double)(1ull << shift);
}

double fgb_quantile(const struct fgb_histogram *h, double q)
{
	double rank = q * (double)h->count, seen = 0;

	for (unsigned int i = 0; i < FGB_BUCKETS; i++) {
		seen += (double)h->bucket[i];
		if (h->bucket[i] && seen >= rank)
			return middle(i) < (double)h->max ? middle(i) : (double)h->max;
	}
	return 0;
}

double fgb_mean(const struct fgb_histogram *h)
{
	return h->count ? h->sum / (double)h->count : 0;
}
