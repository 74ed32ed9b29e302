/* SPDX-License-Identifier: MIT */
/* One thread announces an event to all others by a broadcast, waits until each has answered, and announces the next.
 * An operation is one waiter that has seen one event. */
#include "worker/handing.h"
#include "worker/json.h"

static struct {
	double section_us;
	struct fgb_think think;
	struct fgb_manner manner;
	uint64_t section_cycles;
	pthread_mutex_t mutex __attribute__((aligned(FGB_ALONE)));
	pthread_cond_t announced, answered;
	uint64_t events, answers;
	uint64_t announced_at; /* cycles */
	uint64_t waiters;
	bool closed;
} fgb_broadcast = {.mutex = PTHREAD_MUTEX_INITIALIZER,
		   .announced = PTHREAD_COND_INITIALIZER,
		   .answered = PTHREAD_COND_INITIALIZER};

static bool fgb_broadcast_announce(void)
{
	bool open;

	pthread_mutex_lock(&fgb_broadcast.mutex);
	while (fgb_broadcast.answers < fgb_broadcast.events * fgb_broadcast.waiters && !fgb_broadcast.closed)
		pthread_cond_wait(&fgb_broadcast.answered, &fgb_broadcast.mutex);
	open = !fgb_broadcast.closed;
	if (open) {
		fgb_broadcast.events++;
		fgb_broadcast.announced_at = fg_cycles();
	}
	fgb_broadcast_and_unlock(&fgb_broadcast.manner, &fgb_broadcast.announced, &fgb_broadcast.mutex);
	return open;
}

/* `events`: how many this thread has seen. */
static bool fgb_broadcast_answer(uint64_t *events, uint64_t *announced_at)
{
	uint64_t answers;

	pthread_mutex_lock(&fgb_broadcast.mutex);
	while (fgb_broadcast.events == *events && !fgb_broadcast.closed)
		pthread_cond_wait(&fgb_broadcast.announced, &fgb_broadcast.mutex);
	if (fgb_broadcast.events == *events) {
		pthread_mutex_unlock(&fgb_broadcast.mutex);
		return false;
	}
	*events = fgb_broadcast.events;
	*announced_at = fgb_broadcast.announced_at;
	answers = fgb_broadcast.answers + 1;
	fgb_work(fgb_broadcast.section_cycles);
	fgb_broadcast.answers = answers;
	if (answers == *events * fgb_broadcast.waiters)
		pthread_cond_signal(&fgb_broadcast.answered);
	pthread_mutex_unlock(&fgb_broadcast.mutex);
	return true;
}

/* scratch[0]: the events that this thread has seen */
__attribute__((noinline)) static void fgb_broadcast_loop(const struct fgb_run *run, uint32_t phase,
							 struct fgb_thread *self)
{
	uint64_t announced_at, seen;

	if (self->index == 0) {
		do
			fgb_think(&fgb_broadcast.think, self);
		while (fg_load_relaxed(&run->phase) == phase && fgb_broadcast_announce());
		return;
	}
	while (fg_load_relaxed(&run->phase) == phase && fgb_broadcast_answer(&self->scratch[0], &announced_at)) {
		seen = fg_cycles_ordered();
		fgb_count_event(run, self, announced_at, seen, seen);
	}
}

static void fgb_broadcast_stop(void)
{
	pthread_mutex_lock(&fgb_broadcast.mutex);
	fgb_broadcast.closed = true;
	pthread_cond_broadcast(&fgb_broadcast.announced);
	pthread_cond_broadcast(&fgb_broadcast.answered);
	pthread_mutex_unlock(&fgb_broadcast.mutex);
}

static int fgb_broadcast_prepare(const struct fgb_run *run)
{
	fgb_broadcast.think.cycles_per_us = fgb_cycles_per_us();
	fgb_broadcast.section_cycles = fgb_us_to_cycles(fgb_broadcast.section_us);
	fgb_broadcast.waiters = run->threads - 1;
	if (run->threads >= 2)
		return 0;
	fputs("fg-bench: broadcast: --threads must be at least 2\n", stderr);
	return FGB_USAGE;
}

/* Every waiter saw every event once, but perhaps the last. */
static bool fgb_broadcast_adds_up(uint64_t ops)
{
	uint64_t all = fgb_broadcast.events * fgb_broadcast.waiters;

	return fgb_broadcast.answers == ops && ops <= all && all - ops <= fgb_broadcast.waiters;
}

static uint64_t fgb_broadcast_locks(void)
{
	return 1;
}

static void fgb_broadcast_describe(void)
{
	fgb_json_count("events", fgb_broadcast.events);
	fgb_json_real("section_us", fgb_broadcast.section_us);
	fgb_think_describe(&fgb_broadcast.think);
	fgb_manner_describe(&fgb_broadcast.manner);
}

static const struct fgb_option fgb_broadcast_options[] = {
	FGB_OPTION_REAL("--section-us", "a waiter's answer takes so long", 0, 1e6, &fgb_broadcast.section_us),
	FGB_THINK_OPTIONS(&fgb_broadcast.think, "of the announcer before an event, at random, on average"),
	FGB_MANNER_OPTION(&fgb_broadcast.manner),
	FGB_OPTIONS_END,
};

static const struct fgb_workload fgb_workload_broadcast = {
	.name = "broadcast",
	.brief = "one thread wakes all others, again and again; wait: from the event until a waiter has seen it",
	.sample = 1,
	.own_loop = true,
	.options = fgb_broadcast_options,
	.prepare = fgb_broadcast_prepare,
	.loop = fgb_broadcast_loop,
	.adds_up = fgb_broadcast_adds_up,
	.locks = fgb_broadcast_locks,
	.describe = fgb_broadcast_describe,
	.stop = fgb_broadcast_stop,
};
