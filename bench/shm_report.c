/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/fairness.h"
#include "bench/shm.h"
#include "src/monitor.h"

/* Every line of the data was incremented once per operation, warm-up included: a lost update is a violated lock. */
static bool lines_add_up(const struct fgb_round *round)
{
	uint64_t ops = 0;

	for (uint64_t i = 0; i < round->threads; i++)
		ops += round->workers[i].counts[FGB_WARMUP].ops + round->workers[i].counts[FGB_MEASURE].ops;
	for (uint32_t i = 0; i < round->run.lines; i++)
		if (round->run.data[i].value != ops)
			return false;
	return true;
}

static struct fgb_counts sum(const struct fgb_round *round)
{
	struct fgb_counts all = {0};

	for (uint64_t i = 0; i < round->threads; i++) {
		const struct fgb_counts *one = &round->workers[i].counts[FGB_MEASURE];

		all.ops += one->ops;
		all.sampled += one->sampled;
		all.spins += one->spins;
		all.parks += one->parks;
		if (one->longest_cs > all.longest_cs)
			all.longest_cs = one->longest_cs;
		fgb_histogram_add(&all.cs, &one->cs);
		fgb_histogram_add(&all.wait, &one->wait);
	}
	return all;
}

static void print_times(const char *name, const struct fgb_histogram *h, uint64_t max, double ns_per_cycle)
{
	printf("\"%s\":{\"mean\":%.1f,\"p50\":%.1f,\"p99\":%.1f,\"p999\":%.1f,\"max\":%.1f},", name,
	       fgb_mean(h) * ns_per_cycle, fgb_quantile(h, 0.5) * ns_per_cycle, fgb_quantile(h, 0.99) * ns_per_cycle,
	       fgb_quantile(h, 0.999) * ns_per_cycle, (double)max * ns_per_cycle);
}

static void print_setup(const struct fgb_round *round)
{
	printf("{\"lock\":\"%s\",\"threads\":%" PRIu64 ",\"cycles_between\":%" PRIu64 ",\"section_cycles\":%" PRIu64
	       ",\"lines\":%" PRIu32 ",\"sample\":%" PRIu32 ",",
	       round->lock->name, round->threads, round->run.cycles_between, round->run.section_cycles,
	       round->run.lines, round->run.sample);
}

/* Sorts `ops`, which has been printed by then. */
static void print_shares(const struct fgb_round *round, uint64_t *ops)
{
	struct fgb_fairness fairness;

	printf("\"per_thread_ops\":[");
	for (uint64_t i = 0; i < round->threads; i++)
		printf("%s%" PRIu64, i ? "," : "", ops[i]);
	fairness = fgb_fairness(ops, (unsigned int)round->threads);
	printf("],\"fairness_factor\":%.4f,\"fairness_normalised\":%.4f,", fairness.factor, fairness.normalised);
}

static void print_monitor(const struct fgb_mark *begin, const struct fgb_mark *end)
{
	bool active = fg_load_relaxed(&fgi_monitor_page) != &fgi_no_monitor;

	printf("\"monitor\":%s,\"preempted_holders\":%" PRIu64 ",\"preempted_next_waiters\":%" PRIu64
	       ",\"mode_transitions\":%" PRIu64 ",",
	       active ? "true" : "false", end->preempted_holders - begin->preempted_holders,
	       end->preempted_next_waiters - begin->preempted_next_waiters,
	       end->mode_transitions - begin->mode_transitions);
}

int fgb_shm_report(const struct fgb_round *round)
{
	double seconds = (double)(round->end.at.ns - round->begin.at.ns) * 1e-9;
	double ns_per_cycle = fgb_ns_per_cycle(round->begin.at, round->end.at);
	struct fgb_counts all = sum(round);
	bool ok = lines_add_up(round);
	uint64_t *ops = calloc(round->threads, sizeof(*ops));

	if (!ops) {
		fputs("fg-bench: not enough memory\n", stderr);
		return FGB_FAILED;
	}
	for (uint64_t i = 0; i < round->threads; i++)
		ops[i] = round->workers[i].counts[FGB_MEASURE].ops;
	print_setup(round);
	printf("\"seconds\":%.6f,\"ops\":%" PRIu64 ",\"throughput_ops_per_ms\":%.3f,", seconds, all.ops,
	       (double)all.ops / (seconds * 1e3));
	print_shares(round, ops);
	free(ops);
	printf("\"sampled_ops\":%" PRIu64 ",", all.sampled);
	print_times("cs_ns", &all.cs, all.longest_cs, ns_per_cycle);
	print_times("wait_ns", &all.wait, all.wait.max, ns_per_cycle);
	printf("\"longest_wait_ns\":%.1f,", (double)all.wait.max * ns_per_cycle);
	printf("\"cpu_seconds\":%.6f,\"spins\":%" PRIu64 ",\"parks\":%" PRIu64 ",",
	       round->end.cpu_seconds - round->begin.cpu_seconds, all.spins, all.parks);
	print_monitor(&round->begin, &round->end);
	printf("\"checksum_ok\":%s}\n", ok ? "true" : "false");
	if (fflush(stdout) != 0) {
		perror("fg-bench: standard output");
		return FGB_FAILED;
	}
	return ok ? 0 : FGB_VIOLATED;
}
