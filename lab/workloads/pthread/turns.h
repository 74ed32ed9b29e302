/* SPDX-License-Identifier: MIT */
/* Threads that pass a turn round a ring: with two in a ring, the time of a hand-over and nothing else. */
#include <inttypes.h>

#include "worker/handing.h"
#include "worker/json.h"

struct fgb_ring {
	pthread_mutex_t mutex;
	pthread_cond_t *place; /* one a thread, or one for all */
	uint64_t turn;         /* turns that were taken; the next one is that of place turn % ring */
	uint64_t passed_at;    /* cycles */
	bool closed;
} __attribute__((aligned(FGB_ALONE)));

static struct {
	uint64_t ring; /* threads in a ring */
	bool one_condition;
	double turn_us;
	struct fgb_manner manner;
	uint64_t rings, turn_cycles;
	struct fgb_ring *rings_made;
} fgb_turns = {2, false, 0, {false}, 0, 0, NULL};

static pthread_cond_t *fgb_turns_place(const struct fgb_ring *ring, uint64_t place)
{
	return &ring->place[fgb_turns.one_condition ? 0 : place];
}

static void fgb_turns_pass(struct fgb_ring *ring)
{
	ring->turn++;
	ring->passed_at = fg_cycles();
	if (fgb_turns.one_condition)
		fgb_broadcast_and_unlock(&fgb_turns.manner, ring->place, &ring->mutex);
	else
		fgb_signal_and_unlock(&fgb_turns.manner, fgb_turns_place(ring, ring->turn % fgb_turns.ring),
				      &ring->mutex);
}

__attribute__((noinline)) static void fgb_turns_loop(const struct fgb_run *run, uint32_t phase, struct fgb_thread *self)
{
	struct fgb_ring *ring = &fgb_turns.rings_made[self->index / fgb_turns.ring];
	uint64_t place = self->index % fgb_turns.ring;

	while (fg_load_relaxed(&run->phase) == phase) {
		uint64_t passed_at, seen;
		uint32_t counted_in;

		pthread_mutex_lock(&ring->mutex);
		while (ring->turn % fgb_turns.ring != place && !ring->closed)
			pthread_cond_wait(fgb_turns_place(ring, place), &ring->mutex);
		if (ring->turn % fgb_turns.ring != place) {
			pthread_mutex_unlock(&ring->mutex);
			return;
		}
		passed_at = ring->passed_at;
		seen = fg_cycles_ordered();
		counted_in = fgb_event_phase(run); /* with the mutex held: so the places of a ring count by turns */
		fgb_work(fgb_turns.turn_cycles);
		fgb_turns_pass(ring);
		fgb_count_event_in(counted_in, self, passed_at, seen, fg_cycles());
	}
}

static void fgb_turns_stop(void)
{
	for (uint64_t i = 0; i < fgb_turns.rings; i++) {
		struct fgb_ring *ring = &fgb_turns.rings_made[i];

		pthread_mutex_lock(&ring->mutex);
		ring->closed = true;
		for (uint64_t place = 0; place < fgb_turns.ring; place++)
			pthread_cond_broadcast(fgb_turns_place(ring, place));
		pthread_mutex_unlock(&ring->mutex);
	}
}

static int fgb_turns_prepare(const struct fgb_run *run)
{
	if (run->threads % fgb_turns.ring) {
		fprintf(stderr, "fg-bench: turns: --threads must be a multiple of --ring (%" PRIu64 ")\n",
			fgb_turns.ring);
		return FGB_USAGE;
	}
	fgb_turns.rings = run->threads / fgb_turns.ring;
	fgb_turns.turn_cycles = fgb_us_to_cycles(fgb_turns.turn_us);
	fgb_turns.rings_made = fgb_allocate(fgb_turns.rings, sizeof(struct fgb_ring));
	for (uint64_t i = 0; fgb_turns.rings_made && i < fgb_turns.rings; i++) {
		struct fgb_ring *ring = &fgb_turns.rings_made[i];

		pthread_mutex_init(&ring->mutex, NULL);
		ring->passed_at = fg_cycles();
		ring->place = fgb_allocate(fgb_turns.ring, sizeof(pthread_cond_t)); /* zero: initialised */
		if (!ring->place)
			return FGB_FAILED;
	}
	return fgb_turns.rings_made ? 0 : FGB_FAILED;
}

static bool fgb_turns_adds_up(uint64_t ops)
{
	uint64_t turns = 0;

	for (uint64_t i = 0; i < fgb_turns.rings; i++)
		turns += fgb_turns.rings_made[i].turn;
	return turns == ops;
}

static uint64_t fgb_turns_locks(void)
{
	return fgb_turns.rings;
}

static void fgb_turns_describe(void)
{
	fgb_json_count("ring", fgb_turns.ring);
	fgb_json_real("turn_us", fgb_turns.turn_us);
	fgb_json_flag("one_condition", fgb_turns.one_condition);
	fgb_manner_describe(&fgb_turns.manner);
}

static const struct fgb_option fgb_turns_options[] = {
	FGB_OPTION_NUMBER("--ring", "threads that pass one turn round; --threads is a multiple", 1, 4096,
			  &fgb_turns.ring),
	FGB_OPTION_REAL("--turn-us", "a turn lasts, with the mutex held", 0, 1e6, &fgb_turns.turn_us),
	FGB_OPTION_FLAG("--one-condition", "all wait on one condition variable; passing on is a broadcast",
			&fgb_turns.one_condition),
	FGB_MANNER_OPTION(&fgb_turns.manner),
	FGB_OPTIONS_END,
};

static const struct fgb_workload fgb_workload_turns = {
	.name = "turns",
	.brief = "threads that pass a turn round a ring; wait: from the turn being passed to running with it",
	.sample = 1,
	.own_loop = true,
	.options = fgb_turns_options,
	.prepare = fgb_turns_prepare,
	.loop = fgb_turns_loop,
	.adds_up = fgb_turns_adds_up,
	.locks = fgb_turns_locks,
	.describe = fgb_turns_describe,
	.stop = fgb_turns_stop,
};
