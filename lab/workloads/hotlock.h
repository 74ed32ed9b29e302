/* SPDX-License-Identifier: MIT */
/* The hash table of figure 3 a-d with the settings of the authors' program, which make it another experiment than
 * hashtable.h with its own: one bucket's lock is hot at a time, and another one after each shift.
 *
 * 100,000 values in 100 buckets, a lock each; a bucket has 1,000 neighbouring values (value * buckets / values); values
 * are drawn with theta 10, so that 999 of 1,000 operations are for one value; half of them put, half get; the place
 * moves 40 times in 10 s. A section takes some 20 ns: the hot value is near the head of its chain.
 * Differs from the original, as far as the paper says: the table begins empty, so that chains are short.
 *
 * Checked as hashtable.h: each chain has the entries that were put, each operation was counted. */
#include "worker/json.h"
#include "workloads/hashtable.h"

static struct {
	uint64_t buckets, keys, shift_ms;
	double theta, update_ratio;
} fgb_hotlock = {100, 100000, 250, 10, 0.5};

static int fgb_hotlock_prepare(const struct fgb_run *run)
{
	fgb_table.buckets = fgb_hotlock.buckets;
	fgb_table.keys = fgb_hotlock.keys;
	fgb_table.shift_ms = fgb_hotlock.shift_ms;
	fgb_table.theta = fgb_hotlock.theta;
	fgb_table.update_ratio = fgb_hotlock.update_ratio;
	fgb_table.contiguous = true;
	return fgb_table_prepare(run);
}

static void fgb_hotlock_describe(void)
{
	uint64_t most = 0, sum = 0;

	for (uint64_t i = 0; i < fgb_table.buckets; i++) {
		sum += fgb_table.bucket[i].ops;
		most = fgb_table.bucket[i].ops > most ? fgb_table.bucket[i].ops : most;
	}
	fgb_table_describe();
	fgb_json_rounded("hottest_share", sum ? (double)most / (double)sum : 0, 4);
}

static const struct fgb_option fgb_hotlock_options[] = {
	FGB_OPTION_NUMBER("--buckets", "buckets, a lock each", 1, 1e6, &fgb_hotlock.buckets),
	FGB_OPTION_NUMBER("--keys", "the range that values are drawn from", 1, 1e7, &fgb_hotlock.keys),
	FGB_OPTION_REAL("--theta", "skew of the Zipf distribution; 0: uniform", 0, 10, &fgb_hotlock.theta),
	FGB_OPTION_NUMBER("--shift-ms", "after so many ms the distribution moves elsewhere; 0: never", 0, 1e6,
			  &fgb_hotlock.shift_ms),
	FGB_OPTION_REAL("--update-ratio", "share of puts; the others get", 0, 1, &fgb_hotlock.update_ratio),
	FGB_OPTIONS_END,
};

static const struct fgb_workload fgb_workload_hotlock = {
	.name = "hotlock",
	.brief = "the authors' hash table: one bucket's lock is hot at a time, another one every 250 ms",
	.sample = 16,
	.options = fgb_hotlock_options,
	.prepare = fgb_hotlock_prepare,
	.loop = fgb_table_loop,
	.adds_up = fgb_table_adds_up,
	.locks = fgb_table_locks,
	.describe = fgb_hotlock_describe,
};
