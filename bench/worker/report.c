/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/worker/fairness.h"
#include "bench/worker/round.h"
#include "locks/parts/extended.h"
#include "runtime/monitor.h"
#include "runtime/node.h"

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

static struct fgb_counts sum(const struct fgb_round *round, uint64_t *with_warmup)
{
	struct fgb_counts all = {0};

	*with_warmup = 0;
	for (uint64_t i = 0; i < round->threads; i++) {
		const struct fgb_counts *one = &round->workers[i].state.counts[FGB_MEASURE];

		*with_warmup += one->ops + round->workers[i].state.counts[FGB_WARMUP].ops;
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
	printf("{\"workload\":\"%s\",\"lock\":\"%s\",\"threads\":%" PRIu64 ",\"cycles_between\":%" PRIu64 ",",
	       round->workload->name, round->lock->name, round->threads, round->run.cycles_between);
	round->workload->describe();
	printf("\"hold_sleep_us\":%" PRIu32 ",\"hold_sleep_every\":%" PRIu32 ",\"hogs\":%" PRIu64 ",\"sample\":%" PRIu32
	       ",\"compiler\":\"%s\",",
	       round->run.hold_sleep_ns / 1000, round->run.hold_sleep_every, round->hog_count, round->run.sample,
	       COMPILER);
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
	fgb_intervals_print(&round->intervals[0]);
	fgb_intervals_print(&round->intervals[1]);
}

/* One object for each place of the --nice list: threads of the same level that stand apart in it stay apart. */
static void print_nice(const struct fgb_round *round)
{
	uint64_t groups = round->nice.count;

	if (!groups)
		return;
	printf("\"nice\":[");
	for (uint64_t g = 0; g < groups && g < round->threads; g++) {
		uint64_t ops = 0, threads = 0;

		for (uint64_t i = g; i < round->threads; i += groups, threads++)
			ops += round->workers[i].state.counts[FGB_MEASURE].ops;
		printf("%s{\"nice\":%d,\"threads\":%" PRIu64 ",\"ops\":%" PRIu64 "}", g ? "," : "",
		       round->nice.level[g], threads, ops);
	}
	printf("],");
}

static void print_monitor(const struct fgb_mark *begin, const struct fgb_mark *end, double seconds)
{
	bool active = fg_load_relaxed(&fgi_monitor_page) != &fgi_no_monitor;
	uint64_t transitions = end->mode_transitions - begin->mode_transitions;

	printf("\"monitor\":%s,\"preempted_holders\":%" PRIu64 ",\"preempted_next_waiters\":%" PRIu64
	       ",\"mode_transitions\":%" PRIu64 ",\"mode_transitions_per_second\":%.3f,",
	       active ? "true" : "false", end->preempted_holders - begin->preempted_holders,
	       end->preempted_next_waiters - begin->preempted_next_waiters, transitions, (double)transitions / seconds);
}

/* What our pools have handed out is exact. A peer's memory is in its objects and somewhere in the growth of the
 * process, which also holds the threads' stacks. */
static void print_memory(const struct fgb_round *round)
{
	double lock = (double)round->lock->carried->lock_bytes;
	double extended = (double)fgi_extended_used(FGI_EXTENDED_SMALL) * FGI_EXTENDED_SMALL_BYTES +
			  (double)fgi_extended_used(FGI_EXTENDED_LARGE) * FGI_EXTENDED_LARGE_BYTES;

	printf("\"memory\":{\"lock_bytes\":%.0f", lock);
	if (round->lock->own)
		printf(",\"per_lock_bytes\":%.2f,\"per_thread_bytes\":%.2f,\"nodes\":%" PRIu32,
		       lock + extended / (double)round->workload->locks(),
		       (double)fgi_nodes_used() * sizeof(struct fg_queue_node) / (double)round->threads,
		       fgi_nodes_used());
	printf(",\"rss_bytes\":%" PRIu64 ",\"rss_growth_bytes\":%" PRId64 "},", round->rss_after,
	       (int64_t)(round->rss_after - round->rss_before));
}

static void print_cost(const struct fgb_round *round, const struct fgb_counts *all)
{
	double cpu = round->end.cpu_seconds - round->begin.cpu_seconds - round->trace.cpu_seconds;

	if (cpu < 0) /* the sampler's share is known a little later than the whole */
		cpu = 0;
	printf("\"cpu_seconds\":%.6f,\"cpu_ns_per_op\":%.3f,", cpu, all->ops ? cpu * 1e9 / (double)all->ops : 0);
	printf("\"voluntary_switches\":%" PRIu64 ",\"involuntary_switches\":%" PRIu64 ",",
	       round->end.voluntary_switches - round->begin.voluntary_switches,
	       round->end.involuntary_switches - round->begin.involuntary_switches);
	if (round->lock->own)
		printf("\"spins\":%" PRIu64 ",\"parks\":%" PRIu64 ",", all->spins, all->parks);
}

int fgb_report(const struct fgb_round *round)
{
	double seconds = (double)(round->end.at.ns - round->begin.at.ns) * 1e-9;
	double ns_per_cycle = fgb_ns_per_cycle(round->begin.at, round->end.at);
	uint64_t with_warmup, *ops = calloc(round->threads, sizeof(*ops));
	struct fgb_counts all = sum(round, &with_warmup);
	bool ok = round->workload->adds_up(with_warmup);

	if (!ops) {
		fputs("fg-bench: not enough memory\n", stderr);
		return FGB_FAILED;
	}
	for (uint64_t i = 0; i < round->threads; i++)
		ops[i] = round->workers[i].state.counts[FGB_MEASURE].ops;
	print_setup(round);
	printf("\"seconds\":%.6f,\"ops\":%" PRIu64 ",\"throughput_ops_per_ms\":%.3f,", seconds, all.ops,
	       (double)all.ops / (seconds * 1e3));
	print_shares(round, ops);
	free(ops);
	print_nice(round);
	printf("\"sampled_ops\":%" PRIu64 ",", all.sampled);
	print_times("cs_ns", &all.cs, all.longest_cs, ns_per_cycle);
	print_times("wait_ns", &all.wait, all.wait.max, ns_per_cycle);
	printf("\"longest_wait_ns\":%.1f,", (double)all.wait.max * ns_per_cycle);
	print_cost(round, &all);
	print_monitor(&round->begin, &round->end, seconds);
	print_memory(round);
	fgb_trace_print(&round->trace);
	fgb_ramp_print(&round->ramp);
	printf("\"checksum_ok\":%s}\n", ok ? "true" : "false");
	if (fflush(stdout) != 0) {
		perror("fg-bench: standard output");
		return FGB_FAILED;
	}
	return ok ? 0 : FGB_VIOLATED;
}
