/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>

#include "locks/parts/extended.h"
#include "runtime/monitor.h"
#include "runtime/node.h"
#include "worker/fairness.h"
#include "worker/json.h"
#include "worker/round.h"

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
		fgb_histogram_add(&all.hold, &one->hold);
	}
	return all;
}

static void print_times(const char *name, const struct fgb_histogram *h, uint64_t max, double ns_per_cycle)
{
	fgb_json_object(name);
	fgb_json_rounded("mean", fgb_mean(h) * ns_per_cycle, 1);
	fgb_json_rounded("p50", fgb_quantile(h, 0.5) * ns_per_cycle, 1);
	fgb_json_rounded("p99", fgb_quantile(h, 0.99) * ns_per_cycle, 1);
	fgb_json_rounded("p999", fgb_quantile(h, 0.999) * ns_per_cycle, 1);
	fgb_json_rounded("max", (double)max * ns_per_cycle, 1);
	fgb_json_end();
}

static void print_setup(const struct fgb_round *round)
{
	fgb_json_text("workload", round->workload->name);
	fgb_json_text("lock", round->lock->name);
	fgb_json_count("threads", round->threads);
	fgb_json_count("cycles_between", round->run.cycles_between);
	round->workload->describe();
	fgb_json_count("hold_sleep_us", round->run.hold_sleep_ns / 1000);
	fgb_json_count("hold_sleep_every", round->run.hold_sleep_every);
	fgb_json_count("slice_us", round->slice_us);
	fgb_json_count("hogs", round->hog_count);
	fgb_json_count("sample", round->run.sample);
	fgb_json_text("compiler", COMPILER);
}

/* Sorts `ops`, which has been printed by then. */
static void print_shares(const struct fgb_round *round, uint64_t *ops)
{
	struct fgb_fairness fairness;

	fgb_json_array("per_thread_ops");
	for (uint64_t i = 0; i < round->threads; i++)
		fgb_json_count(NULL, ops[i]);
	fgb_json_end();
	fairness = fgb_fairness(ops, (unsigned int)round->threads);
	fgb_json_rounded("fairness_factor", fairness.factor, 4);
	fgb_json_rounded("fairness_normalised", fairness.normalised, 4);
	fgb_intervals_print(&round->intervals[0]);
	fgb_intervals_print(&round->intervals[1]);
}

/* One object for each place of the --nice list: threads of the same level that stand apart in it stay apart. */
static void print_nice(const struct fgb_round *round)
{
	uint64_t groups = round->nice.count;

	if (!groups)
		return;
	fgb_json_array("nice");
	for (uint64_t g = 0; g < groups && g < round->threads; g++) {
		uint64_t ops = 0, threads = 0;

		for (uint64_t i = g; i < round->threads; i += groups, threads++)
			ops += round->workers[i].state.counts[FGB_MEASURE].ops;
		fgb_json_object(NULL);
		fgb_json_integer("nice", round->nice.level[g]);
		fgb_json_count("threads", threads);
		fgb_json_count("ops", ops);
		fgb_json_end();
	}
	fgb_json_end();
}

static void print_monitor(const struct fgb_mark *begin, const struct fgb_mark *end, double seconds)
{
	bool active = fg_load_relaxed(&fgi_monitor_page) != &fgi_no_monitor;
	uint64_t transitions = end->mode_transitions - begin->mode_transitions;

	fgb_json_flag("monitor", active);
	fgb_json_count("preempted_holders", end->preempted.holders - begin->preempted.holders);
	fgb_json_count("preempted_next_waiters", end->preempted.next_waiters - begin->preempted.next_waiters);
	fgb_json_count("mode_transitions", transitions);
	fgb_json_rounded("mode_transitions_per_second", (double)transitions / seconds, 3);
}

/* What our pools have handed out is exact. A peer's memory is in its objects and somewhere in the growth of the
 * process, which also holds the threads' stacks. */
static void print_memory(const struct fgb_round *round)
{
	double lock = (double)round->lock->carried->lock_bytes;
	double extended = (double)fgi_extended_used(FGI_EXTENDED_SMALL) * FGI_EXTENDED_SMALL_BYTES +
			  (double)fgi_extended_used(FGI_EXTENDED_LARGE) * FGI_EXTENDED_LARGE_BYTES;

	fgb_json_object("memory");
	fgb_json_rounded("lock_bytes", lock, 0);
	if (round->lock->own) {
		uint32_t nodes = fgi_nodes_used();

		fgb_json_rounded("per_lock_bytes", lock + extended / (double)round->workload->locks(), 2);
		fgb_json_rounded("per_thread_bytes",
				 (double)nodes * sizeof(struct fg_queue_node) / (double)round->threads, 2);
		fgb_json_count("nodes", nodes);
	}
	fgb_json_count("rss_bytes", round->rss_after);
	fgb_json_integer("rss_growth_bytes", (int64_t)(round->rss_after - round->rss_before));
	fgb_json_end();
}

static void print_cost(const struct fgb_round *round, const struct fgb_counts *all)
{
	double cpu = round->end.cpu_seconds - round->begin.cpu_seconds - round->trace.cpu_seconds;

	if (cpu < 0) /* the sampler's share is known a little later than the whole */
		cpu = 0;
	fgb_json_rounded("cpu_seconds", cpu, 6);
	fgb_json_rounded("cpu_ns_per_op", all->ops ? cpu * 1e9 / (double)all->ops : 0, 3);
	fgb_json_count("voluntary_switches", round->end.voluntary_switches - round->begin.voluntary_switches);
	fgb_json_count("involuntary_switches", round->end.involuntary_switches - round->begin.involuntary_switches);
	if (round->lock->own) {
		fgb_json_count("spins", all->spins);
		fgb_json_count("parks", all->parks);
	}
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
	fgb_json_object(NULL);
	print_setup(round);
	fgb_json_rounded("seconds", seconds, 6);
	fgb_json_count("ops", all.ops);
	fgb_json_rounded("throughput_ops_per_ms", (double)all.ops / (seconds * 1e3), 3);
	print_shares(round, ops);
	free(ops);
	print_nice(round);
	fgb_json_count("sampled_ops", all.sampled);
	print_times("cs_ns", &all.cs, all.longest_cs, ns_per_cycle);
	print_times("wait_ns", &all.wait, all.wait.max, ns_per_cycle);
	print_times("hold_ns", &all.hold, all.hold.max, ns_per_cycle);
	fgb_json_rounded("longest_wait_ns", (double)all.wait.max * ns_per_cycle, 1);
	print_cost(round, &all);
	print_monitor(&round->begin, &round->end, seconds);
	print_memory(round);
	fgb_trace_print(&round->trace);
	fgb_ramp_print(&round->ramp);
	if (fgb_describe_simulation)
		fgb_describe_simulation();
	fgb_json_flag("checksum_ok", ok);
	fgb_json_end();
	if (fflush(stdout) != 0) {
		perror("fg-bench: standard output");
		return FGB_FAILED;
	}
	return ok ? 0 : FGB_VIOLATED;
}
