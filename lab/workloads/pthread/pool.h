/* SPDX-License-Identifier: MIT */
/* A thread pool with one queue: producers queue tasks, the other threads wait for tasks and work on them. With few
 * tasks and many threads it is a pool of idle waiters. An operation is a task. */
#include <inttypes.h>

#include "worker/handing.h"
#include "worker/json.h"

#define FGB_POOL_CAPACITY 1024

static struct {
	uint64_t producers;
	double section_us, task_us;
	struct fgb_think think;
	struct fgb_manner manner;
	uint64_t section_cycles, task_cycles;
	pthread_mutex_t mutex __attribute__((aligned(FGB_ALONE)));
	pthread_cond_t not_empty, not_full;
	uint64_t put, got;
	bool closed;
	uint64_t put_at[FGB_POOL_CAPACITY]; /* cycles */
} fgb_pool = {.producers = 1,
	      .task_us = 5,
	      .think = {.mean_us = 20},
	      .mutex = PTHREAD_MUTEX_INITIALIZER,
	      .not_empty = PTHREAD_COND_INITIALIZER,
	      .not_full = PTHREAD_COND_INITIALIZER};

static bool fgb_pool_put(void)
{
	pthread_mutex_lock(&fgb_pool.mutex);
	while (fgb_pool.put - fgb_pool.got == FGB_POOL_CAPACITY && !fgb_pool.closed)
		pthread_cond_wait(&fgb_pool.not_full, &fgb_pool.mutex);
	if (fgb_pool.closed) {
		pthread_mutex_unlock(&fgb_pool.mutex);
		return false;
	}
	fgb_pool.put_at[fgb_pool.put++ % FGB_POOL_CAPACITY] = fg_cycles();
	fgb_signal_and_unlock(&fgb_pool.manner, &fgb_pool.not_empty, &fgb_pool.mutex);
	return true;
}

/* False: the round is over. */
static bool fgb_pool_get(uint64_t *put_at)
{
	uint64_t got;
	bool was_full;

	pthread_mutex_lock(&fgb_pool.mutex);
	while (fgb_pool.put == fgb_pool.got && !fgb_pool.closed)
		pthread_cond_wait(&fgb_pool.not_empty, &fgb_pool.mutex);
	if (fgb_pool.put == fgb_pool.got) {
		pthread_mutex_unlock(&fgb_pool.mutex);
		return false;
	}
	was_full = fgb_pool.put - fgb_pool.got == FGB_POOL_CAPACITY;
	got = fgb_pool.got;
	*put_at = fgb_pool.put_at[got % FGB_POOL_CAPACITY];
	fgb_work(fgb_pool.section_cycles);
	fgb_pool.got = got + 1;
	if (was_full)
		pthread_cond_broadcast(&fgb_pool.not_full);
	pthread_mutex_unlock(&fgb_pool.mutex);
	return true;
}

__attribute__((noinline)) static void fgb_pool_loop(const struct fgb_run *run, uint32_t phase, struct fgb_thread *self)
{
	uint64_t put_at, seen;

	if (self->index < fgb_pool.producers) {
		do
			fgb_think(&fgb_pool.think, self);
		while (fg_load_relaxed(&run->phase) == phase && fgb_pool_put());
		return;
	}
	while (fg_load_relaxed(&run->phase) == phase && fgb_pool_get(&put_at)) {
		seen = fg_cycles_ordered();
		fgb_work(fgb_pool.task_cycles);
		fgb_count_event(run, self, put_at, seen, fg_cycles_ordered());
	}
}

static void fgb_pool_stop(void)
{
	pthread_mutex_lock(&fgb_pool.mutex);
	fgb_pool.closed = true;
	pthread_cond_broadcast(&fgb_pool.not_empty);
	pthread_cond_broadcast(&fgb_pool.not_full);
	pthread_mutex_unlock(&fgb_pool.mutex);
}

static int fgb_pool_prepare(const struct fgb_run *run)
{
	if (run->threads <= fgb_pool.producers) {
		fprintf(stderr, "fg-bench: pool: --threads must be more than --producers (%" PRIu64 ")\n",
			fgb_pool.producers);
		return FGB_USAGE;
	}
	fgb_pool.think.cycles_per_us = fgb_cycles_per_us();
	fgb_pool.section_cycles = fgb_us_to_cycles(fgb_pool.section_us);
	fgb_pool.task_cycles = fgb_us_to_cycles(fgb_pool.task_us);
	return 0;
}

static bool fgb_pool_adds_up(uint64_t ops)
{
	return fgb_pool.got == ops && fgb_pool.got <= fgb_pool.put && fgb_pool.put - fgb_pool.got <= FGB_POOL_CAPACITY;
}

static uint64_t fgb_pool_locks(void)
{
	return 1;
}

static void fgb_pool_describe(void)
{
	fgb_json_count("producers", fgb_pool.producers);
	fgb_json_real("section_us", fgb_pool.section_us);
	fgb_json_real("task_us", fgb_pool.task_us);
	fgb_think_describe(&fgb_pool.think);
	fgb_manner_describe(&fgb_pool.manner);
}

static const struct fgb_option fgb_pool_options[] = {
	FGB_OPTION_NUMBER("--producers", "threads that queue tasks; the others work on them", 1, 4095,
			  &fgb_pool.producers),
	FGB_OPTION_REAL("--section-us", "taking a task out of the queue takes so long", 0, 1e6, &fgb_pool.section_us),
	FGB_OPTION_REAL("--task-us", "a task takes", 0, 1e6, &fgb_pool.task_us),
	FGB_THINK_OPTIONS(&fgb_pool.think, "of a producer between two tasks, at random, on average"),
	FGB_MANNER_OPTION(&fgb_pool.manner),
	FGB_OPTIONS_END,
};

static const struct fgb_workload fgb_workload_pool = {
	.name = "pool",
	.brief = "a thread pool with one queue; wait: from queueing a task until a thread begins it",
	.sample = 1,
	.own_loop = true,
	.options = fgb_pool_options,
	.prepare = fgb_pool_prepare,
	.loop = fgb_pool_loop,
	.adds_up = fgb_pool_adds_up,
	.locks = fgb_pool_locks,
	.describe = fgb_pool_describe,
	.stop = fgb_pool_stop,
};
