/* SPDX-License-Identifier: MIT */
/* Timed waits that expire: nobody signals. An operation is one wait; its wait is how late it ended. */
#include <errno.h>
#include <time.h>

#include "worker/clock.h"
#include "worker/handing.h"
#include "worker/json.h"

struct fgb_bell {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint64_t expired, other; /* waits that ended as they should; that did not */
} __attribute__((aligned(FGB_ALONE)));

static struct {
	double timeout_us;
	uint64_t conditions;
	uint64_t timeout_ns, timeout_cycles;
	struct fgb_bell *bell;
} fgb_timed = {100, 1, 0, 0, NULL};

static void fgb_timed_once(const struct fgb_run *run, struct fgb_thread *self, struct fgb_bell *bell)
{
	uint64_t from = fgb_ns(), until = from + fgb_timed.timeout_ns, due = fg_cycles() + fgb_timed.timeout_cycles;
	struct timespec abs = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
	uint64_t seen;
	int result;

	pthread_mutex_lock(&bell->mutex);
	do
		result = pthread_cond_clockwait(&bell->cond, &bell->mutex, CLOCK_MONOTONIC, &abs);
	while (result == 0);
	if (result == ETIMEDOUT && fgb_ns() >= until)
		bell->expired++;
	else
		bell->other++;
	pthread_mutex_unlock(&bell->mutex);
	seen = fg_cycles_ordered();
	fgb_count_event(run, self, due, seen, seen);
}

__attribute__((noinline)) static void fgb_timed_loop(const struct fgb_run *run, uint32_t phase, struct fgb_thread *self)
{
	struct fgb_bell *bell = &fgb_timed.bell[self->index % fgb_timed.conditions];

	while (fg_load_relaxed(&run->phase) == phase)
		fgb_timed_once(run, self, bell);
}

static int fgb_timed_prepare(const struct fgb_run *run)
{
	(void)run;
	fgb_timed.timeout_ns = (uint64_t)(fgb_timed.timeout_us * 1e3);
	fgb_timed.timeout_cycles = fgb_us_to_cycles(fgb_timed.timeout_us);
	fgb_timed.bell = fgb_allocate(fgb_timed.conditions, sizeof(struct fgb_bell)); /* zero: initialised */
	return fgb_timed.bell ? 0 : FGB_FAILED;
}

static bool fgb_timed_adds_up(uint64_t ops)
{
	uint64_t expired = 0;

	for (uint64_t i = 0; i < fgb_timed.conditions; i++) {
		expired += fgb_timed.bell[i].expired;
		if (fgb_timed.bell[i].other)
			return false;
	}
	return expired == ops;
}

static uint64_t fgb_timed_locks(void)
{
	return fgb_timed.conditions;
}

static void fgb_timed_describe(void)
{
	fgb_json_real("timeout_us", fgb_timed.timeout_us);
	fgb_json_count("conditions", fgb_timed.conditions);
}

static const struct fgb_option fgb_timed_options[] = {
	FGB_OPTION_REAL("--timeout-us", "a wait expires after", 1, 1e6, &fgb_timed.timeout_us),
	FGB_OPTION_NUMBER("--conditions", "condition variables, each with a mutex", 1, 4096, &fgb_timed.conditions),
	FGB_OPTIONS_END,
};

static const struct fgb_workload fgb_workload_timed = {
	.name = "timed",
	.brief = "timed waits that expire; wait: how late each ended",
	.sample = 1,
	.own_loop = true,
	.options = fgb_timed_options,
	.prepare = fgb_timed_prepare,
	.loop = fgb_timed_loop,
	.adds_up = fgb_timed_adds_up,
	.locks = fgb_timed_locks,
	.describe = fgb_timed_describe,
};
