/* SPDX-License-Identifier: MIT */
/* The arithmetic behind the reported numbers, against values worked out by hand. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "worker/fairness.h"
#include "worker/histogram.h"
#include "worker/zipf.h"

static int failures;

static void expect(const char *what, double got, double wanted)
{
	if (fabs(got - wanted) <= 1e-9 * (1 + fabs(wanted)))
		return;
	fprintf(stderr, "%s: got %.12g, wanted %.12g\n", what, got, wanted);
	failures++;
}

static void fairness(const char *what, double factor, double normalised, unsigned int threads, const uint64_t *ops)
{
	uint64_t copy[8];
	struct fgb_fairness f;

	for (unsigned int i = 0; i < threads; i++)
		copy[i] = ops[i];
	f = fgb_fairness(copy, threads);
	expect(what, f.factor, factor);
	expect(what, f.normalised, normalised);
}

static void test_fairness(void)
{
	fairness("equal", 0.5, 0.5, 4, (uint64_t[]){7, 7, 7, 7});
	fairness("one takes all", 1, 1, 4, (uint64_t[]){0, 0, 9, 0});
	fairness("unsorted", 0.75, 0.75, 4, (uint64_t[]){10, 50, 15, 25});
	fairness("odd and equal", 2.0 / 3, 0.5, 3, (uint64_t[]){5, 5, 5});
	fairness("odd", 0.9, 0.75, 3, (uint64_t[]){1, 6, 3});
	fairness("alone", 1, 0.5, 1, (uint64_t[]){3});
	fairness("nothing done", 0.5, 0.5, 2, (uint64_t[]){0, 0});
	fairness("large", 0.75, 0.75, 2, (uint64_t[]){1ull << 60, 3ull << 60});
}

/* Every value lies in its bucket: the quantile of a histogram that holds it alone is within half a bucket of it. */
static void test_precision(void)
{
	for (unsigned int bit = 0; bit < 64; bit++) {
		for (int offset = -1; offset <= 1; offset++) {
			uint64_t v = (1ull << bit) + (uint64_t)offset;
			struct fgb_histogram *h = calloc(1, sizeof(*h));

			fgb_record(h, v, 3);
			fgb_record(h, ~0ull, 1); /* else the maximum would stand in for the bucket */
			if (fabs(fgb_quantile(h, 0.5) - (double)v) > (double)v / 32)
				expect("quantile of one value", fgb_quantile(h, 0.5), (double)v);
			if (fgb_bucket(v) >= FGB_BUCKETS || (v && fgb_bucket(v) < fgb_bucket(v - 1)))
				expect("bucket of", (double)fgb_bucket(v), (double)v);
			free(h);
		}
	}
}

static void test_quantiles(void)
{
	static struct fgb_histogram a, b, empty;

	for (uint64_t v = 1; v <= 10; v++)
		fgb_record(v % 2 ? &a : &b, v, 1);
	fgb_histogram_add(&a, &b);
	expect("mean", fgb_mean(&a), 5.5);
	expect("p50", fgb_quantile(&a, 0.5), 5);
	expect("p90", fgb_quantile(&a, 0.9), 9);
	expect("p100", fgb_quantile(&a, 1), 10);
	expect("max", (double)a.max, 10);
	fgb_record(&a, 1000, 990);
	expect("weighted p50, not beyond the maximum", fgb_quantile(&a, 0.5), 1000);
	expect("weighted mean", fgb_mean(&a), (55 + 990 * 1000.0) / 1000);
	expect("weighted p1", fgb_quantile(&a, 0.01), 10);
	expect("empty", fgb_quantile(&empty, 0.5) + fgb_mean(&empty), 0);
}

/* The share of every rank that the columns give, against the formula. */
static void test_zipf(uint32_t n, double theta)
{
	static double share[1000];
	struct fgb_zipf z;
	double total = 0;

	if (fgb_zipf_init(&z, n, theta)) {
		failures++;
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		share[i] = 0;
	for (uint32_t i = 0; i < n; i++) {
		double own = z.columns[i].own == UINT32_MAX ? 1 : z.columns[i].own / 0x1p32;

		share[i] += own / n;
		share[z.columns[i].alias] += (1 - own) / n;
		total += pow((double)i + 1, -theta);
	}
	for (uint32_t i = 0; i < n; i++)
		if (fabs(share[i] - pow((double)i + 1, -theta) / total) > 1e-8)
			expect("share of a rank", share[i], pow((double)i + 1, -theta) / total);
	free(z.columns);
}

/* Drawn, rank 0 of two with theta 1 comes twice as often as rank 1, and nothing beyond the last rank comes. */
static void test_drawing(void)
{
	struct fgb_zipf z;
	uint64_t state = 1, first = 0;

	if (fgb_zipf_init(&z, 2, 1)) {
		failures++;
		return;
	}
	for (int i = 0; i < 300000; i++) {
		uint32_t rank = fgb_zipf_draw(&z, fgb_random(&state));

		first += rank == 0;
		if (rank > 1)
			expect("rank", rank, 1);
	}
	if (first < 199000 || first > 201000) /* four standard deviations */
		expect("drawn", (double)first, 200000);
	free(z.columns);
}

int main(void)
{
	test_fairness();
	test_precision();
	test_quantiles();
	test_zipf(1, 0.99);
	test_zipf(1000, 0.99);
	test_zipf(1000, 0);
	test_zipf(100, 3);
	test_drawing();
	return failures != 0;
}
