/* SPDX-License-Identifier: MIT */
/* A pipeline of stages with a bounded queue between each two: a mutex and two condition variables a queue. Two stages
 * are the producers and consumers of the textbooks. An operation is one item moved on by one stage. */
#include <inttypes.h>

#include "worker/handing.h"
#include "worker/json.h"

struct fgb_queue {
	pthread_mutex_t mutex;
	pthread_cond_t not_empty, not_full;
	uint64_t put, got; /* items, ever: put - got are in the queue */
	uint64_t put_sum, got_sum;
	struct {
		uint64_t ticket; /* that the first stage gave it */
		uint64_t put_at; /* cycles */
	} * slot;
	bool closed;
} __attribute__((aligned(FGB_ALONE)));

static struct {
	uint64_t stages, capacity;
	double section_us, work_us;
	struct fgb_manner manner;
	uint64_t section_cycles, work_cycles;
	struct fgb_queue *queue; /* stages - 1 */
} fgb_pipeline = {.stages = 2, .capacity = 1};

/* False: the round is over. */
static bool fgb_queue_put(struct fgb_queue *q, uint64_t *ticket, bool first)
{
	uint64_t at;

	pthread_mutex_lock(&q->mutex);
	while (q->put - q->got == fgb_pipeline.capacity && !q->closed)
		pthread_cond_wait(&q->not_full, &q->mutex);
	if (q->put - q->got == fgb_pipeline.capacity) {
		pthread_mutex_unlock(&q->mutex);
		return false;
	}
	at = q->put;
	if (fgb_pipeline.section_cycles)
		fgb_work(fgb_pipeline.section_cycles);
	q->put = at + 1;
	if (first)
		*ticket = at + 1;
	at %= fgb_pipeline.capacity;
	q->slot[at].ticket = *ticket;
	q->slot[at].put_at = fg_cycles();
	q->put_sum += *ticket;
	fgb_signal_and_unlock(&fgb_pipeline.manner, &q->not_empty, &q->mutex);
	return true;
}

static bool fgb_queue_get(struct fgb_queue *q, uint64_t *ticket, uint64_t *put_at)
{
	uint64_t at;

	pthread_mutex_lock(&q->mutex);
	while (q->put == q->got && !q->closed)
		pthread_cond_wait(&q->not_empty, &q->mutex);
	if (q->put == q->got) {
		pthread_mutex_unlock(&q->mutex);
		return false;
	}
	at = q->got++ % fgb_pipeline.capacity;
	*ticket = q->slot[at].ticket;
	*put_at = q->slot[at].put_at;
	q->got_sum += *ticket;
	fgb_signal_and_unlock(&fgb_pipeline.manner, &q->not_full, &q->mutex);
	return true;
}

/* The wait of an operation is that of its item in the queue in front of the stage; the first stage has none. */
__attribute__((noinline)) static void fgb_pipeline_loop(const struct fgb_run *run, uint32_t phase,
							struct fgb_thread *self)
{
	uint64_t stage = self->index % fgb_pipeline.stages, last = fgb_pipeline.stages - 1;

	while (fg_load_relaxed(&run->phase) == phase) {
		uint64_t ticket = 0, put_at = fg_cycles(), seen;

		if (stage > 0 && !fgb_queue_get(&fgb_pipeline.queue[stage - 1], &ticket, &put_at))
			return;
		seen = fg_cycles_ordered();
		if (stage == 0)
			put_at = seen;
		fgb_work(fgb_pipeline.work_cycles);
		if (stage < last && !fgb_queue_put(&fgb_pipeline.queue[stage], &ticket, stage == 0))
			return;
		fgb_count_event(run, self, put_at, seen, fg_cycles());
	}
}

static void fgb_pipeline_stop(void)
{
	for (uint64_t i = 0; i + 1 < fgb_pipeline.stages; i++) {
		struct fgb_queue *q = &fgb_pipeline.queue[i];

		pthread_mutex_lock(&q->mutex);
		q->closed = true;
		pthread_cond_broadcast(&q->not_empty);
		pthread_cond_broadcast(&q->not_full);
		pthread_mutex_unlock(&q->mutex);
	}
}

static int fgb_pipeline_prepare(const struct fgb_run *run)
{
	uint64_t queues = fgb_pipeline.stages - 1;

	if (run->threads < fgb_pipeline.stages) {
		fprintf(stderr, "fg-bench: pipeline: --threads must be at least --stages (%" PRIu64 ")\n",
			fgb_pipeline.stages);
		return FGB_USAGE;
	}
	fgb_pipeline.section_cycles = fgb_us_to_cycles(fgb_pipeline.section_us);
	fgb_pipeline.work_cycles = fgb_us_to_cycles(fgb_pipeline.work_us);
	fgb_pipeline.queue = fgb_allocate(queues, sizeof(struct fgb_queue));
	for (uint64_t i = 0; fgb_pipeline.queue && i < queues; i++) {
		struct fgb_queue *q = &fgb_pipeline.queue[i];

		pthread_mutex_init(&q->mutex, NULL);
		pthread_cond_init(&q->not_empty, NULL);
		pthread_cond_init(&q->not_full, NULL);
		q->slot = fgb_allocate(fgb_pipeline.capacity, sizeof(*q->slot));
		if (!q->slot)
			return FGB_FAILED;
	}
	return fgb_pipeline.queue ? 0 : FGB_FAILED;
}

/* What was put into a queue was taken out once or is still in it, and each operation but those of the last stage put
 * an item into a queue. */
static bool fgb_pipeline_adds_up(uint64_t ops)
{
	const struct fgb_queue *q = fgb_pipeline.queue;
	uint64_t moved = 0;

	for (uint64_t i = 0; i + 1 < fgb_pipeline.stages; i++, q++) {
		uint64_t left = 0;

		if (q->got > q->put || q->put - q->got > fgb_pipeline.capacity)
			return false;
		for (uint64_t at = q->got; at < q->put; at++)
			left += q->slot[at % fgb_pipeline.capacity].ticket;
		if (q->put_sum != q->got_sum + left)
			return false;
		moved += q->put;
	}
	return moved + q[-1].got == ops;
}

static uint64_t fgb_pipeline_locks(void)
{
	return fgb_pipeline.stages - 1;
}

static void fgb_pipeline_describe(void)
{
	fgb_json_count("stages", fgb_pipeline.stages);
	fgb_json_count("capacity", fgb_pipeline.capacity);
	fgb_json_real("section_us", fgb_pipeline.section_us);
	fgb_json_real("work_us", fgb_pipeline.work_us);
	fgb_manner_describe(&fgb_pipeline.manner);
}

static const struct fgb_option fgb_pipeline_options[] = {
	FGB_OPTION_NUMBER("--stages", "stages, to which the threads are dealt in turn", 2, 4096, &fgb_pipeline.stages),
	FGB_OPTION_NUMBER("--capacity", "items that a queue takes", 1, 1e6, &fgb_pipeline.capacity),
	FGB_OPTION_REAL("--section-us", "putting an item into a queue takes so long", 0, 1e6, &fgb_pipeline.section_us),
	FGB_OPTION_REAL("--work-us", "a stage works on an item, without a mutex", 0, 1e6, &fgb_pipeline.work_us),
	FGB_MANNER_OPTION(&fgb_pipeline.manner),
	FGB_OPTIONS_END,
};

static const struct fgb_workload fgb_workload_pipeline = {
	.name = "pipeline",
	.brief = "stages with bounded queues between them; wait: an item's time in the queue",
	.sample = 1,
	.own_loop = true,
	.options = fgb_pipeline_options,
	.prepare = fgb_pipeline_prepare,
	.loop = fgb_pipeline_loop,
	.adds_up = fgb_pipeline_adds_up,
	.locks = fgb_pipeline_locks,
	.describe = fgb_pipeline_describe,
	.stop = fgb_pipeline_stop,
};
