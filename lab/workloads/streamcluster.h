/* SPDX-License-Identifier: MIT */
/* Online k-median: clusters a stream of points by local search, block by block, with barriers between short phases
 * (section 5.3, figure 3 q-t, which is Streamcluster). An operation is one section: a thread arrives at a barrier, or
 * is woken.
 *
 * For each block the search draws candidates. For each candidate the threads compute, each for its part of the points,
 * what it would save to open a centre there, and to close which others; one thread decides; all move their points.
 * Three barriers a candidate.
 * Locks: 1, the barrier's. Each arrival takes it to count itself and to add its sums (20 to 40 ns); a thread that is
 * not the last sleeps and takes it again when it is woken, as by a mutex and a condition variable, which is what the
 * original's barrier is made of. So all threads want the lock at nearly the same time, and nobody does between.
 * Between two barriers a thread works for 1 to 20 us, by --points and the number of threads.
 * Differs from the original: whole numbers, so that the result does not depend on the order of additions; the points
 * are made with a seed, --blocks of them come again and again; each block stands for itself, where the original
 * clusters the blocks' centres once more at the end; its phases are longer.
 *
 * Checked: each arrival is counted, and the cost after each candidate is that of a sequential run. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "worker/json.h"

#define FGB_STREAM_CENTRES 32
#define FGB_STREAM_CLUSTERS 12 /* that the points are drawn from */

struct fgb_stream_sum {                       /* what a candidate would save */
	uint64_t points;                      /* over the points that would move to it */
	uint64_t closing[FGB_STREAM_CENTRES]; /* by centre: what its other points would lose if it were closed */
};

struct fgb_stream_thread { /* its part of the points, and where it is: a step is a candidate */
	uint64_t first, end, step, ops, arrivals;
} __attribute__((aligned(FGB_ALONE)));

static struct {
	uint64_t points, dimensions, blocks, candidates;
} fgb_stream_given = {1024, 32, 4, 48};

static struct {
	int16_t *point;     /* of all blocks */
	uint64_t *cost;     /* by point of the block: its distance from its centre */
	uint8_t *centre_of; /* by point of the block */
	uint64_t facility;  /* what a centre costs */
	uint64_t *expected; /* by step: the cost, as a sequential run has it */
	struct fgb_stream_thread *thread;
	uint64_t threads;
	struct { /* thread 0 writes it between two barriers */
		bool open[FGB_STREAM_CENTRES];
		bool closes[FGB_STREAM_CENTRES];
		uint64_t candidate; /* point of the block */
		uint32_t place;     /* of its centre; FGB_STREAM_CENTRES: it is not opened */
	} search __attribute__((aligned(FGB_ALONE)));
	struct { /* under the lock */
		struct fg_lock lock;
		uint64_t count, sections, cost; /* count: arrivals */
		struct fgb_stream_sum sum;
	} at_barrier __attribute__((aligned(FGB_ALONE)));
	struct {
		uint64_t arrived, wrong;
		uint32_t barriers; /* that were met; threads sleep on it */
		uint32_t next;     /* the round's phase, as the last thread saw it: all leave together */
	} last __attribute__((aligned(FGB_ALONE)));
} fgb_stream;

/* ---- the search ---- */

static inline const int16_t *fgb_stream_point(uint64_t step, uint64_t point)
{
	uint64_t block = step / fgb_stream_given.candidates % fgb_stream_given.blocks;

	return &fgb_stream.point[(block * fgb_stream_given.points + point) * fgb_stream_given.dimensions];
}

/* The square of the distance. */
static inline uint64_t fgb_stream_distance(const int16_t *a, const int16_t *b)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < fgb_stream_given.dimensions; i++) {
		int32_t gap = a[i] - b[i];

		sum += (uint64_t)((int64_t)gap * gap);
	}
	return sum;
}

/* A block begins with a centre at its first point. */
static inline uint64_t fgb_stream_candidate(uint64_t step)
{
	uint64_t of_block = step % fgb_stream_given.candidates;

	return of_block ? fgb_below(fgb_mix(of_block * FGB_GOLDEN), fgb_stream_given.points) : 0;
}

/* What the thread's points would save. */
static void fgb_stream_weigh(const struct fgb_stream_thread *t, struct fgb_stream_sum *sum)
{
	const int16_t *to = fgb_stream_point(t->step, fgb_stream_candidate(t->step));

	memset(sum, 0, sizeof(*sum));
	if (t->step % fgb_stream_given.candidates == 0)
		return;
	for (uint64_t i = t->first; i < t->end; i++) {
		uint64_t distance = fgb_stream_distance(fgb_stream_point(t->step, i), to);

		if (distance < fgb_stream.cost[i])
			sum->points += fgb_stream.cost[i] - distance;
		else
			sum->closing[fgb_stream.centre_of[i] % FGB_STREAM_CENTRES] += distance - fgb_stream.cost[i];
	}
}

/* Opens a centre at the candidate if that saves more than it costs, and closes those that then cost more than they
 * save. */
static void fgb_stream_decide(uint64_t step, const struct fgb_stream_sum *sum)
{
	uint64_t saved = sum->points;
	uint32_t place = FGB_STREAM_CENTRES;

	fgb_stream.search.candidate = fgb_stream_candidate(step);
	if (step % fgb_stream_given.candidates == 0) {
		memset(&fgb_stream.search.open, 0, sizeof(fgb_stream.search.open));
		memset(&fgb_stream.search.closes, 1, sizeof(fgb_stream.search.closes));
		fgb_stream.search.open[0] = true;
		fgb_stream.search.place = 0;
		return;
	}
	memset(&fgb_stream.search.closes, 0, sizeof(fgb_stream.search.closes));
	for (uint32_t i = 0; i < FGB_STREAM_CENTRES; i++) {
		if (!fgb_stream.search.open[i])
			place = i;
		else if (sum->closing[i] < fgb_stream.facility)
			saved += fgb_stream.facility - sum->closing[i];
	}
	if (saved <= fgb_stream.facility)
		place = FGB_STREAM_CENTRES;
	fgb_stream.search.place = place;
	if (place == FGB_STREAM_CENTRES)
		return;
	for (uint32_t i = 0; i < FGB_STREAM_CENTRES; i++) {
		fgb_stream.search.closes[i] = fgb_stream.search.open[i] && sum->closing[i] < fgb_stream.facility;
		fgb_stream.search.open[i] &= !fgb_stream.search.closes[i];
	}
	fgb_stream.search.open[place] = true;
}

/* Moves the thread's points to the new centre, if there is one. Returns their cost. */
static uint64_t fgb_stream_move(const struct fgb_stream_thread *t)
{
	const int16_t *to = fgb_stream_point(t->step, fgb_stream.search.candidate);
	uint64_t cost = 0;

	for (uint64_t i = t->first; i < t->end; i++) {
		uint64_t distance;

		if (fgb_stream.search.place < FGB_STREAM_CENTRES) {
			distance = fgb_stream_distance(fgb_stream_point(t->step, i), to);
			if (distance < fgb_stream.cost[i] ||
			    fgb_stream.search.closes[fgb_stream.centre_of[i] % FGB_STREAM_CENTRES]) {
				fgb_stream.cost[i] = distance;
				fgb_stream.centre_of[i] = (uint8_t)fgb_stream.search.place;
			}
		}
		cost += fgb_stream.cost[i];
	}
	return cost;
}

/* ---- the barrier ---- */

/* Adds the thread and its sums. As in the shm workload, counts are read first and written last, so that a second thread
 * in the section leaves a trace. True: it is the last, by an atomic count, which the lock's must equal. */
static bool fgb_stream_add(const struct fgb_stream_sum *sum, uint64_t cost)
{
	uint64_t count = fg_load_relaxed(&fgb_stream.at_barrier.count), arrived;

	FGB_IN_SECTION();
	if (cost)
		fgb_stream.at_barrier.cost += cost;
	if (sum) {
		fgb_stream.at_barrier.sum.points += sum->points;
		for (uint32_t i = 0; i < FGB_STREAM_CENTRES; i++)
			fgb_stream.at_barrier.sum.closing[i] += sum->closing[i];
	}
	fg_compiler_barrier();
	fg_store_relaxed(&fgb_stream.at_barrier.count, count + 1);
	arrived = fg_fetch_add_acq_rel(&fgb_stream.last.arrived, 1) + 1;
	if (arrived % fgb_stream.threads)
		return false;
	fgb_stream.last.wrong += count + 1 != arrived;
	return true;
}

/* A section at the barrier: reads `sections` first and writes it last. */
struct fgb_stream_section {
	uint64_t asked, acquired, before;
};

static inline struct fgb_stream_section fgb_stream_enter(void)
{
	struct fgb_stream_section now = {fg_cycles_ordered(), 0, 0};

	fgb_call_lock(&fgb_stream.at_barrier.lock);
	now.acquired = fg_cycles_ordered();
	now.before = fg_load_relaxed(&fgb_stream.at_barrier.sections);
	return now;
}

static inline void fgb_stream_leave(struct fgb_stream_thread *t, struct fgb_counts *counts,
				    struct fgb_stream_section now)
{
	fg_store_relaxed(&fgb_stream.at_barrier.sections, now.before + 1);
	fgb_call_unlock(&fgb_stream.at_barrier.lock);
	fgb_count(counts, now.asked, now.acquired, fg_cycles_ordered());
	t->ops++;
}

static void fgb_stream_arrive(const struct fgb_run *run, struct fgb_stream_thread *t, struct fgb_counts *counts,
			      const struct fgb_stream_sum *sum, uint64_t cost)
{
	struct fgb_stream_section section = fgb_stream_enter();
	uint32_t met = fg_load_relaxed(&fgb_stream.last.barriers);
	bool last = fgb_stream_add(sum, cost);

	t->arrivals++;
	if (last) {
		fgb_stream.last.next = fg_load_relaxed(&run->phase);
		fg_store_release(&fgb_stream.last.barriers, met + 1); /* to the threads that wait for it below */
		fgi_futex_wake(&fgb_stream.last.barriers, INT_MAX);
	}
	fgb_stream_leave(t, counts, section);
	while (!last) {
		fgi_futex_wait(&fgb_stream.last.barriers, met, CLOCK_MONOTONIC, NULL);
		section = fgb_stream_enter();
		last = fg_load_acquire(&fgb_stream.last.barriers) != met;
		fgb_stream_leave(t, counts, section);
	}
}

__attribute__((noinline)) static void fgb_stream_loop(const struct fgb_run *run, uint32_t phase,
						      struct fgb_thread *self)
{
	struct fgb_stream_thread *t = &fgb_stream.thread[self->index];
	struct fgb_counts *counts = &self->counts[phase];
	uint64_t step_of_pass, steps = fgb_stream_given.blocks * fgb_stream_given.candidates;
	struct fgb_stream_sum sum;

	while (fg_load_relaxed(&fgb_stream.last.next) == phase) {
		fgb_stream_weigh(t, &sum);
		fgb_stream_arrive(run, t, counts, &sum, 0);
		if (self->index == 0) {
			fgb_stream_decide(t->step, &fgb_stream.at_barrier.sum);
			memset(&fgb_stream.at_barrier.sum, 0, sizeof(fgb_stream.at_barrier.sum));
			fgb_stream.at_barrier.cost = 0;
		}
		fgb_stream_arrive(run, t, counts, NULL, 0);
		fgb_stream_arrive(run, t, counts, NULL, fgb_stream_move(t));
		step_of_pass = t->step++ % steps;
		if (self->index == 0)
			fgb_stream.last.wrong += fgb_stream.at_barrier.cost != fgb_stream.expected[step_of_pass];
	}
}

/* ---- before and after ---- */

/* Around some places, as far as a tenth of the space. */
static void fgb_stream_draw(void)
{
	uint64_t random = 1, dimensions = fgb_stream_given.dimensions;
	int16_t place[FGB_STREAM_CLUSTERS][256];

	for (uint64_t i = 0; i < FGB_STREAM_CLUSTERS * 256; i++)
		place[i / 256][i % 256] = (int16_t)fgb_below(fgb_random(&random), 1000);
	for (uint64_t i = 0; i < fgb_stream_given.blocks * fgb_stream_given.points; i++) {
		uint64_t cluster = fgb_below(fgb_random(&random), FGB_STREAM_CLUSTERS);

		for (uint64_t d = 0; d < dimensions; d++)
			fgb_stream.point[i * dimensions + d] =
				(int16_t)(place[cluster][d] + (int)fgb_below(fgb_random(&random), 200) - 100);
	}
	fgb_stream.facility = fgb_stream_given.points * dimensions * 2000;
}

static void fgb_stream_learn(uint64_t steps)
{
	struct fgb_stream_thread all = {0, fgb_stream_given.points, 0, 0, 0};
	struct fgb_stream_sum sum;

	for (; all.step < steps; all.step++) {
		fgb_stream_weigh(&all, &sum);
		fgb_stream_decide(all.step, &sum);
		fgb_stream.expected[all.step] = fgb_stream_move(&all);
	}
}

static int fgb_stream_prepare(const struct fgb_run *run)
{
	uint64_t points = fgb_stream_given.points, steps = fgb_stream_given.blocks * fgb_stream_given.candidates;

	fgb_stream.threads = run->threads;
	fgb_stream.point = (int16_t *)fgb_allocate(fgb_stream_given.blocks * points,
						   fgb_stream_given.dimensions * sizeof(int16_t));
	fgb_stream.cost = (uint64_t *)fgb_allocate(points, sizeof(uint64_t));
	fgb_stream.centre_of = (uint8_t *)fgb_allocate(points, 1);
	fgb_stream.expected = (uint64_t *)fgb_allocate(steps, sizeof(uint64_t));
	fgb_stream.thread = (struct fgb_stream_thread *)fgb_allocate(run->threads, sizeof(*fgb_stream.thread));
	if (!fgb_stream.point || !fgb_stream.cost || !fgb_stream.centre_of || !fgb_stream.expected ||
	    !fgb_stream.thread)
		return FGB_FAILED;
	for (uint64_t i = 0; i < run->threads; i++) {
		fgb_stream.thread[i].first = i * points / run->threads;
		fgb_stream.thread[i].end = (i + 1) * points / run->threads;
	}
	fgb_stream_draw();
	fgb_stream_learn(steps);
	return 0;
}

static bool fgb_stream_adds_up(uint64_t ops)
{
	uint64_t sum = 0, arrivals = 0;

	for (uint64_t i = 0; i < fgb_stream.threads; i++) {
		sum += fgb_stream.thread[i].ops;
		arrivals += fgb_stream.thread[i].arrivals;
	}
	return fgb_stream.last.wrong == 0 && sum == ops && fgb_stream.at_barrier.sections == ops &&
	       fgb_stream.at_barrier.count == arrivals;
}

static uint64_t fgb_stream_locks(void)
{
	return 1;
}

static void fgb_stream_describe(void)
{
	uint64_t centres = 0;

	for (uint32_t i = 0; i < FGB_STREAM_CENTRES; i++)
		centres += fgb_stream.search.open[i];
	fgb_json_count("points", fgb_stream_given.points);
	fgb_json_count("dimensions", fgb_stream_given.dimensions);
	fgb_json_count("blocks", fgb_stream_given.blocks);
	fgb_json_count("candidates", fgb_stream_given.candidates);
	fgb_json_count("centres", centres);
	fgb_json_count("barriers", fgb_stream.last.barriers);
}

static const struct fgb_option fgb_stream_options[] = {
	FGB_OPTION_NUMBER("--points", "points of a block: how long the threads work between two barriers", 1, 1e6,
			  &fgb_stream_given.points),
	FGB_OPTION_NUMBER("--dimensions", "numbers of a point", 1, 256, &fgb_stream_given.dimensions),
	FGB_OPTION_NUMBER("--blocks", "blocks of the stream", 1, 1000, &fgb_stream_given.blocks),
	FGB_OPTION_NUMBER("--candidates", "candidates for centres, for each block", 2, 1e5,
			  &fgb_stream_given.candidates),
	FGB_OPTIONS_END,
};

static const struct fgb_workload fgb_workload_streamcluster = {
	.name = "streamcluster",
	.brief = "online k-median with barriers between short phases; wait: for the lock that counts arrivals",
	.sample = 1,
	.own_loop = true,
	.options = fgb_stream_options,
	.prepare = fgb_stream_prepare,
	.loop = fgb_stream_loop,
	.adds_up = fgb_stream_adds_up,
	.locks = fgb_stream_locks,
	.describe = fgb_stream_describe,
};
