/* SPDX-License-Identifier: MIT */
#include "worker/ramp.h"

#include "runtime/monitor.h"
#include "runtime/thread.h"
#include "worker/json.h"
#include "worker/round.h"

void fgb_ramp_plan(struct fgb_ramp *ramp, uint64_t threads)
{
	uint32_t up = threads < FGB_RAMP_UP ? (uint32_t)threads : FGB_RAMP_UP;

	ramp->count = 2 * up - 1;
	for (uint32_t i = 0; i < up; i++) {
		uint64_t n = up == 1 ? threads : 1 + (threads - 1) * i / (up - 1);

		ramp->step[i].threads = n;
		ramp->step[ramp->count - 1 - i].threads = n;
	}
}

/* Each thread has a `run` of its own, and so a phase of its own. */
void fgb_ramp_begin(struct fgb_round *round)
{
	for (uint64_t i = 0; i < round->threads; i++) {
		struct fgb_worker *w = &round->workers[i];

		w->run = round->run;
		w->run.phase = i == 0 ? FGB_WARMUP : FGB_PAUSE;
		sem_init(&w->resume, 0, 0);
	}
}

void fgb_ramp_work(struct fgb_worker *w)
{
	uint32_t phase;

	while ((phase = fg_load_relaxed(&w->run.phase)) != FGB_STOP) {
		struct fgb_counts *counts;
		uint64_t spins = fg_thread.spins, parks = fg_thread.parks;

		if (phase == FGB_PAUSE) {
			while (sem_wait(&w->resume))
				;
			continue;
		}
		counts = &w->state.counts[phase];
		w->round->workload->loop(&w->run, phase, &w->state);
		counts->spins += fg_thread.spins - spins;
		counts->parks += fg_thread.parks - parks;
	}
}

static void set_phase(struct fgb_worker *w, uint32_t phase)
{
	uint32_t before = fg_load_relaxed(&w->run.phase);

	fg_store_relaxed(&w->run.phase, phase);
	if (before == FGB_PAUSE && phase != FGB_PAUSE)
		sem_post(&w->resume);
}

void fgb_ramp_stop(struct fgb_round *round)
{
	for (uint64_t i = 0; i < round->threads; i++)
		set_phase(&round->workers[i], FGB_STOP);
}

struct state {
	uint64_t ns, ops, transitions;
};

static struct state look(const struct fgb_round *round)
{
	struct state s = {
		.ns = fgb_ns(),
		.transitions = fg_load_relaxed(&fg_load_relaxed(&fgi_monitor_page)->mode_transitions),
	};

	for (uint64_t i = 0; i < round->threads; i++)
		s.ops += fg_load_relaxed(&round->workers[i].state.counts[FGB_MEASURE].ops);
	return s;
}

void fgb_ramp_measure(struct fgb_round *round)
{
	struct fgb_ramp *ramp = &round->ramp;
	struct state from = look(round);

	for (uint32_t i = 0; i < ramp->count; i++) {
		struct fgb_step *step = &ramp->step[i];
		double end = round->seconds * (i + 1) / ramp->count;
		struct state to;

		for (uint64_t t = 0; t < round->threads; t++)
			set_phase(&round->workers[t], t < step->threads ? FGB_MEASURE : FGB_PAUSE);
		fgb_sleep_until(round->begin.at.ns + (uint64_t)(end * 1e9));
		to = look(round);
		step->seconds = (double)(to.ns - from.ns) * 1e-9;
		step->ops = to.ops - from.ops;
		step->transitions = to.transitions - from.transitions;
		from = to;
	}
}

void fgb_ramp_print(const struct fgb_ramp *ramp)
{
	if (!ramp->count)
		return;
	fgb_json_array("ramp");
	for (uint32_t i = 0; i < ramp->count; i++) {
		const struct fgb_step *s = &ramp->step[i];

		fgb_json_object(NULL);
		fgb_json_count("threads", s->threads);
		fgb_json_rounded("seconds", s->seconds, 6);
		fgb_json_count("ops", s->ops);
		fgb_json_count("transitions", s->transitions);
		fgb_json_end();
	}
	fgb_json_end();
}
