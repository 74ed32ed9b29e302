/* SPDX-License-Identifier: MIT */
#include "sync/awake.h"

#include "runtime/arch/arch.h"
#include "runtime/clock.h"
#include "runtime/hash.h"
#include "runtime/monitor.h"
#include "runtime/policy.h"
#include "runtime/spin_budget.h"
#include "runtime/thread.h"

#define PAUSES_PER_LOOK 8
#define LOOKS_BEFORE_YIELD 2
/* What a switch to another thread and back costs the waiter; what is above it, the other thread used. */
#define SWITCH_NS 2000u

#define MOST_MISSES 8
#define HISTORY_BITS 4
#define HISTORIES (1u << HISTORY_BITS)

/* Until then no waiter of the process stays awake: a CPU was taken for long. */
static uint64_t asleep_until_ns;

static __thread struct fgi_history histories[HISTORIES] __attribute__((tls_model("initial-exec")));

static struct fgi_history unlearned; /* of waits that say nothing of others: constant */

static struct fgi_history *history_of(const void *object)
{
	return &histories[fgi_hash_of(object, HISTORY_BITS)];
}

void fgi_awake_begin(struct fgi_awake *a, const void *object)
{
	if (fg_unlikely(fg_load_relaxed(&fgi_foreign_notes)))
		fgi_foreign_settle();
	*a = (struct fgi_awake){
		.history = object ? history_of(object) : &unlearned,
		.begin_ns = fgi_now_ns(CLOCK_MONOTONIC),
	};
}

bool fgi_awake_stay(struct fgi_awake *a, bool (*ready)(const void *), const void *argument, struct fgi_deadline until)
{
	uint64_t now = a->begin_ns, spent = 0;
	uint64_t most = fgi_monitor_alive(now) ? FGI_AWAKE_NS : FGI_AWAKE_UNMONITORED_NS;

	if (now < fg_load_relaxed(&asleep_until_ns))
		return false;
	if (a->history->sleeps_left) {
		a->history->sleeps_left--;
		return false;
	}
	a->stayed = true;
	for (uint32_t looks = 0; spent < most; looks++) {
		uint64_t before = now, used;

		for (uint32_t i = 0; i < PAUSES_PER_LOOK; i++)
			fg_pause();
		if (ready(argument))
			return true;
		if (fgi_preempted_cs() || fgi_past_deadline(&until))
			return false;
		if (looks == LOOKS_BEFORE_YIELD && fgi_real_time()) {
			a->stayed = false;
			break;
		}
		if (looks >= LOOKS_BEFORE_YIELD)
			fgi_system_yield();
		now = fgi_now_ns(CLOCK_MONOTONIC);
		used = now - before;
		if (used > FGI_AWAKE_TAKEN_NS) {
			used = used < FGI_AWAKE_TAKEN_MOST_NS ? used : FGI_AWAKE_TAKEN_MOST_NS;
			fg_store_relaxed(&asleep_until_ns, now + FGI_AWAKE_TAKEN_TIMES * used);
			a->stayed = false; /* the history is not to blame */
			break;
		}
		spent += used < SWITCH_NS ? used : SWITCH_NS;
	}
	return ready(argument);
}

void fgi_awake_end(const struct fgi_awake *a, bool slept, uint64_t event_ns)
{
	struct fgi_history *h = a->history;
	bool soon = !slept || event_ns - a->begin_ns < FGI_AWAKE_NS; /* an unknown time is far away */

	if (a->stayed && slept) {
		h->misses += 2;
		if (h->misses > MOST_MISSES)
			h->misses = MOST_MISSES;
		h->sleeps_left = (uint8_t)((1u << h->misses) - 1);
	} else if (soon && h->misses) {
		h->misses--;
		if (h->sleeps_left > (1u << h->misses) - 1)
			h->sleeps_left = (uint8_t)((1u << h->misses) - 1);
	}
}
