/* SPDX-License-Identifier: MIT */
/* The spin budget of a waiter: how long it may busy-wait before it must park (section 3.2; design invariant I7).
 *
 * FlexGuard's locks ask the monitor (fgi_must_park): a waiter spins while the counter of preempted critical sections is
 * 0 and parks when it is not. No lock may depend on the monitor for its progress, so there is a bound as well: with a
 * living monitor about a time slice of the scheduler, without one about the price of parking, which makes the lock a
 * spin-then-park lock. The other locks have a fixed bound (fgi_spun_for).
 *
 * A waiter with a deadline parks when the deadline is reached; its futex call then returns ETIMEDOUT. */
#ifndef FGI_SPIN_BUDGET_H
#define FGI_SPIN_BUDGET_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "runtime/atomic.h"
#include "runtime/clock.h"
#include "runtime/deadline.h"
#include "runtime/monitor.h"

struct fgi_spin_budget {
	uint32_t spins;    /* of busy-waiting so far; fgi_spin_once counts them for the statistics */
	bool out;          /* the bound has passed */
	uint64_t until_ns; /* the bound: CLOCK_MONOTONIC; 0: the clock has not been read yet */
	struct fgi_deadline deadline;
};

#define FGI_SPIN_BUDGET(deadline_) ((struct fgi_spin_budget){.deadline = (deadline_)})

/* How many spins a waiter takes between two readings of the clock: about 2 us. */
#define FGI_SPINS_PER_LOOK 64u

/* The bound with a living monitor: longer than EEVDF's base slice, which is 2.8 ms with 8 or more CPUs and 1.4 ms with
 * 2. The bound without one: about the price of a park and a wake-up (section 2.2; docs/design/locks.md, Constants). */
#define FGI_SPIN_SLICE_NS 4000000u
#define FGI_SPIN_UNMONITORED_NS 10000u

bool fgi_spin_budget_look(struct fgi_spin_budget *p);
bool fgi_spin_bound_look(struct fgi_spin_budget *p, uint64_t ns);

/* The waiter has busy-waited for `spins` more. Returns whether its bound or its deadline has passed. */
static inline bool fgi_bound_reached_after(struct fgi_spin_budget *p, uint32_t spins)
{
	uint32_t before = p->spins;

	p->spins += spins;
	if (fg_unlikely(p->spins / FGI_SPINS_PER_LOOK != before / FGI_SPINS_PER_LOOK))
		return fgi_spin_budget_look(p);
	return p->out;
}

/* The same. Returns whether it must park now. Asks the monitor. */
static inline bool fgi_must_park_after(struct fgi_spin_budget *p, uint32_t spins)
{
	return fgi_preempted_cs() || fgi_bound_reached_after(p, spins);
}

static inline bool fgi_must_park(struct fgi_spin_budget *p)
{
	return fgi_must_park_after(p, 1);
}

/* For locks that do not ask the monitor: one more spin is over. Returns whether `ns` have passed since the budget was
 * fresh; reads the clock, and so may return true, at every FGI_SPINS_PER_LOOK-th spin only. */
static inline bool fgi_spun_for(struct fgi_spin_budget *p, uint64_t ns)
{
	return fg_unlikely(++p->spins % FGI_SPINS_PER_LOOK == 0) && fgi_spin_bound_look(p, ns);
}

/* For waiters that never park: one more spin is over. Returns whether the deadline has passed; reads the clock at the
 * first spin, then at every FGI_SPINS_PER_LOOK-th. */
static inline bool fgi_deadline_reached(struct fgi_spin_budget *p)
{
	return p->spins++ % FGI_SPINS_PER_LOOK == 0 && fgi_past_deadline(&p->deadline);
}

/* The waiter has slept: its bound begins anew. */
static inline void fgi_spin_budget_renew(struct fgi_spin_budget *p)
{
	p->out = false;
	p->until_ns = 0;
}

/* Parks on `word` while it is `expected`, until the deadline at the latest, and counts it. Returns what fgi_futex_wait
 * returns. */
int fgi_park(uint32_t *word, uint32_t expected, const struct fgi_deadline *deadline);

/* Sleeps on `word` while it is `expected`, as one of the group `as` (fgi_futex_wait_as), until about `until_ns`
 * (CLOCK_MONOTONIC) or the deadline, whichever comes first. Returns what fgi_futex_wait returns.
 *
 * One futex call has one clock, here CLOCK_MONOTONIC: a sleep on the other would be longer than `until_ns` when that is
 * set back. A deadline on CLOCK_REALTIME comes closer when it is set forward, and the sleep does not see it. So beside
 * such a deadline no sleep is longer than FGI_REALTIME_LOOK_NS, and it may return ETIMEDOUT before both. */
#define FGI_REALTIME_LOOK_NS 100000000u
int fgi_sleep_until(uint32_t *word, uint32_t expected, const struct fgi_deadline *deadline, uint64_t until_ns,
		    uint32_t as);

#endif
