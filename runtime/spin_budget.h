/* SPDX-License-Identifier: MIT */
/* How long a waiter may busy-wait, and when it must park (section 3.2; design invariant I7).
 *
 * With a living monitor the counter of preempted critical sections decides, and nothing else: a waiter spins while it
 * is 0 and parks when it is not. But no lock may depend on the monitor for progress, so there is a bound behind it:
 * longer than a scheduler time slice nobody spins. Without a monitor the bound is short and the lock is a
 * spin-then-park lock. A waiter with a deadline parks when it is reached, and the futex then says ETIMEDOUT. */
#ifndef FGI_SPIN_BUDGET_H
#define FGI_SPIN_BUDGET_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "runtime/atomic.h"
#include "runtime/clock.h"
#include "runtime/monitor.h"

struct fgi_spin_budget {
	uint32_t turns;
	bool out;
	uint64_t until_ns; /* CLOCK_MONOTONIC; 0: the clock has not been read yet */
	clockid_t clock;   /* of the deadline */
	const struct timespec *deadline;
};

#define FGI_SPIN_BUDGET(clock_, deadline_) ((struct fgi_spin_budget){.clock = (clock_), .deadline = (deadline_)})

/* How many turns go by between looks at the clock. A turn is a PAUSE and a load, 15 to 50 ns. */
#define FGI_TURNS_PER_LOOK 64u

/* The bounds. A slice: EEVDF's base slice is 2.8 ms with 8 or more CPUs, 1.4 ms with 2. Without a monitor: about what
 * a park and a wake-up cost (section 2.2; docs/design/locks.md, Constants). */
#define FGI_SPIN_SLICE_NS 4000000u
#define FGI_SPIN_UNMONITORED_NS 10000u

bool fgi_spin_budget_look(struct fgi_spin_budget *p);
bool fgi_past_deadline(const struct fgi_spin_budget *p); /* false where there is none */

/* So many turns of busy-waiting are over: must this waiter park now? */
static inline bool fgi_must_park_after(struct fgi_spin_budget *p, uint32_t turns)
{
	uint32_t before = p->turns;

	if (fgi_preempted_cs())
		return true;
	p->turns += turns;
	if (fg_unlikely(p->turns / FGI_TURNS_PER_LOOK != before / FGI_TURNS_PER_LOOK))
		return fgi_spin_budget_look(p);
	return p->out;
}

static inline bool fgi_must_park(struct fgi_spin_budget *p)
{
	return fgi_must_park_after(p, 1);
}

/* For pure spinlocks: one turn is over; has the deadline passed? Looks at the clock on the first turn, then now and
 * then. */
static inline bool fgi_deadline_reached(struct fgi_spin_budget *p)
{
	return p->turns++ % FGI_TURNS_PER_LOOK == 0 && fgi_past_deadline(p);
}

/* Busy-waiting begins anew, after having slept. */
static inline void fgi_spin_budget_renew(struct fgi_spin_budget *p)
{
	p->out = false;
	p->until_ns = 0;
}

/* Parks on `word` while it is `expected`, and counts it. Returns what fgi_futex_wait returns. */
int fgi_park(uint32_t *word, uint32_t expected, const struct fgi_spin_budget *p);

/* Sleeps on `word` while it is `expected`, as one of `as`, until about `until_ns` (CLOCK_MONOTONIC) or the deadline,
 * whichever comes first. Returns what fgi_futex_wait returns. */
int fgi_sleep_until(uint32_t *word, uint32_t expected, const struct fgi_spin_budget *p, uint64_t until_ns, uint32_t as);

uint64_t fgi_remaining_ns(const struct fgi_spin_budget *p); /* until the deadline, that there is; 0: it has passed */

#endif
