/* SPDX-License-Identifier: MIT */
/* A histogram of cycle counts: 16 linear buckets per power of two, so a value is known to 1/16. Recording is a bit
 * scan, a shift and an addition; one thread writes, others read after it has ended. */
#ifndef FGB_HISTOGRAM_H
#define FGB_HISTOGRAM_H

#include <stdint.h>

#define FGB_SUB_BITS 4
#define FGB_SUB (1u << FGB_SUB_BITS)
#define FGB_BUCKETS ((64 - FGB_SUB_BITS + 1) * FGB_SUB)

struct fgb_histogram {
	uint64_t count; /* the sum of the weights */
	double sum;
	uint64_t max;
	uint64_t bucket[FGB_BUCKETS];
};

/* Values below 16 have a bucket each; above, the four bits after the leading one choose within the power of two. */
static inline unsigned int fgb_bucket(uint64_t v)
{
	unsigned int shift;

	if (v < FGB_SUB)
		return (unsigned int)v;
	shift = 63 - FGB_SUB_BITS - (unsigned int)__builtin_clzll(v);
	return (shift << FGB_SUB_BITS) + (unsigned int)(v >> shift);
}

/* Records a value that stands for `weight` values. */
static inline void fgb_record(struct fgb_histogram *h, uint64_t v, uint64_t weight)
{
	h->count += weight;
	h->sum += (double)v * (double)weight;
	if (v > h->max)
		h->max = v;
	h->bucket[fgb_bucket(v)] += weight;
}

void fgb_histogram_add(struct fgb_histogram *to, const struct fgb_histogram *from);

/* The value that a share of q (0..1) of the records does not exceed: the middle of its bucket, at most the maximum.
 * 0 for an empty histogram. */
double fgb_quantile(const struct fgb_histogram *h, double q);
double fgb_mean(const struct fgb_histogram *h);

#endif
