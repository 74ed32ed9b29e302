/* SPDX-License-Identifier: MIT */
/* Threads that pass tokens from semaphore to semaphore, round a ring: a thread waits for a token at its place, works
 * with it, and posts it at the next. With two places and one token it is a hand-over and nothing else; with two places
 * and more tokens a bounded buffer between threads that produce and threads that consume; with one place, a limit to
 * how many threads may work at once. */
#include <inttypes.h>
#include <semaphore.h>

#include "worker/handing.h"
#include "worker/json.h"

struct fgb_token_place {
	sem_t tokens;
} __attribute__((aligned(FGB_ALONE)));

static struct {
	uint64_t places, tokens;
	double hold_us;
	struct fgb_think think;
	uint64_t hold_cycles, threads;
	struct fgb_token_place *place;
	uint64_t at_work __attribute__((aligned(FGB_ALONE))); /* threads that have a token */
	uint64_t too_many;                                    /* times that more had one than there are */
	uint32_t closed;
} fgb_tokens = {.places = 2, .tokens = 1};

__attribute__((noinline)) static void fgb_tokens_loop(const struct fgb_run *run, uint32_t phase,
						      struct fgb_thread *self)
{
	uint64_t own = self->index % fgb_tokens.places;
	sem_t *here = &fgb_tokens.place[own].tokens;
	sem_t *next = &fgb_tokens.place[(own + 1) % fgb_tokens.places].tokens;

	while (fg_load_relaxed(&run->phase) == phase) {
		uint64_t asked, had;

		fgb_think(&fgb_tokens.think, self);
		asked = fg_cycles_ordered();
		while (sem_wait(here) != 0)
			;
		had = fg_cycles_ordered();
		if (fg_load_relaxed(&fgb_tokens.closed)) /* this token may be one of those that end the run */
			return;
		if (fg_fetch_add_acquire(&fgb_tokens.at_work, 1) >= fgb_tokens.tokens)
			fg_fetch_add_relaxed(&fgb_tokens.too_many, 1);
		fgb_work(fgb_tokens.hold_cycles);
		fg_fetch_sub_release(&fgb_tokens.at_work, 1);
		sem_post(next);
		fgb_count_event(run, self, asked, had, fg_cycles_ordered());
	}
}

static void fgb_tokens_stop(void)
{
	fg_store_relaxed(&fgb_tokens.closed, 1);
	for (uint64_t i = 0; i < fgb_tokens.threads; i++)
		sem_post(&fgb_tokens.place[i % fgb_tokens.places].tokens);
}

static int fgb_tokens_prepare(const struct fgb_run *run)
{
	if (run->threads % fgb_tokens.places) {
		fprintf(stderr, "fg-bench: tokens: --threads must be a multiple of --places (%" PRIu64 ")\n",
			fgb_tokens.places);
		return FGB_USAGE;
	}
	fgb_tokens.threads = run->threads;
	fgb_tokens.think.cycles_per_us = fgb_cycles_per_us();
	fgb_tokens.hold_cycles = fgb_us_to_cycles(fgb_tokens.hold_us);
	fgb_tokens.place = fgb_allocate(fgb_tokens.places, sizeof(struct fgb_token_place));
	for (uint64_t i = 0; fgb_tokens.place && i < fgb_tokens.places; i++)
		sem_init(&fgb_tokens.place[i].tokens, 0, i == 0 ? (unsigned int)fgb_tokens.tokens : 0);
	return fgb_tokens.place ? 0 : FGB_FAILED;
}

static bool fgb_tokens_adds_up(uint64_t ops)
{
	(void)ops;
	return !fgb_tokens.too_many && !fgb_tokens.at_work;
}

static uint64_t fgb_tokens_locks(void)
{
	return fgb_tokens.places;
}

static void fgb_tokens_describe(void)
{
	fgb_json_count("places", fgb_tokens.places);
	fgb_json_count("tokens", fgb_tokens.tokens);
	fgb_json_real("hold_us", fgb_tokens.hold_us);
	fgb_think_describe(&fgb_tokens.think);
}

static const struct fgb_option fgb_tokens_options[] = {
	FGB_OPTION_NUMBER("--places", "semaphores in the ring; --threads is a multiple", 1, 4096, &fgb_tokens.places),
	FGB_OPTION_NUMBER("--tokens", "that go round", 1, 1000000, &fgb_tokens.tokens),
	FGB_OPTION_REAL("--hold-us", "a thread keeps a token for so long", 0, 1e6, &fgb_tokens.hold_us),
	FGB_THINK_OPTIONS(&fgb_tokens.think, "before it waits for the next, at random, on average"),
	FGB_OPTIONS_END,
};

static const struct fgb_workload fgb_workload_tokens = {
	.name = "tokens",
	.brief = "threads that pass tokens round a ring of semaphores; wait: from asking for a token to having it",
	.sample = 1,
	.own_loop = true,
	.options = fgb_tokens_options,
	.prepare = fgb_tokens_prepare,
	.loop = fgb_tokens_loop,
	.adds_up = fgb_tokens_adds_up,
	.locks = fgb_tokens_locks,
	.describe = fgb_tokens_describe,
	.stop = fgb_tokens_stop,
};
