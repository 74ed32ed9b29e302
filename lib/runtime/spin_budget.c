/* SPDX-License-Identifier: MIT */
#include "runtime/spin_budget.h"

#include "runtime/futex.h"
#include "runtime/thread.h"

bool fgi_spin_budget_look(struct fgi_spin_budget *p)
{
	uint64_t now = fgi_now_ns(CLOCK_MONOTONIC);

	if (fg_unlikely(fg_load_relaxed(&fgi_foreign_notes)))
		fgi_foreign_settle();
	if (p->until_ns == 0)
		p->until_ns = now + (fgi_monitor_alive(now) ? FGI_SPIN_SLICE_NS : FGI_SPIN_UNMONITORED_NS);
	else if (now >= p->until_ns || fgi_past_deadline(&p->deadline))
		p->out = true;
	return p->out;
}

bool fgi_spin_bound_look(struct fgi_spin_budget *p, uint64_t ns)
{
	uint64_t now = fgi_now_ns(CLOCK_MONOTONIC);

	if (p->until_ns == 0)
		p->until_ns = now + ns;
	return now >= p->until_ns;
}

int fgi_sleep_until(uint32_t *word, uint32_t expected, const struct fgi_deadline *deadline, uint64_t until_ns,
		    uint32_t as)
{
	struct timespec until;

	if (deadline->time) {
		uint64_t now = fgi_now_ns(CLOCK_MONOTONIC), left = fgi_remaining_ns(deadline);

		if (deadline->clock == CLOCK_REALTIME && left > FGI_REALTIME_LOOK_NS)
			left = FGI_REALTIME_LOOK_NS;
		if (until_ns > now && until_ns - now > left)
			until_ns = now + left;
	}
	until = fgi_timespec(until_ns);
	return fgi_futex_wait_as(word, expected, CLOCK_MONOTONIC, &until, as);
}

int fgi_park(uint32_t *word, uint32_t expected, const struct fgi_deadline *deadline)
{
	/* Detaches from a dead monitor, which may have left its counter above 0: then every waiter would park at once,
	 * for ever. */
	fgi_monitor_alive(fgi_now_ns(CLOCK_MONOTONIC));
	fg_thread.parks++;
	return fgi_futex_wait(word, expected, deadline->clock, deadline->time);
}
