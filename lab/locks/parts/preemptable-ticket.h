/* SPDX-License-Identifier: MIT */
/* What both preemptable ticket locks share (Ouyang and Lange, VEE'13, section 4 and Fig. 3, 4): tickets, which only
 * order the waiters, beside a lock word, which alone decides.
 *
 *   num_request - num_grant   threads that have drawn a ticket and not released the lock yet, the holder among them
 *   lock                      0 free, otherwise held
 *   forks                     for which process the tickets are good (locks/parts/tickets.h)
 *
 * A waiter's position is n = ticket - num_grant. It may try the lock word when n <= 0, or when it has waited n * tau
 * since the last grant: then it takes a thread before it for preempted, and overtakes it. A thread that was overtaken
 * finds n < 0 when it runs again, and tries at once. No waiter waits for a particular thread, so none holds up others.
 *
 * Deviations: tickets have 32 bits where the paper's have 8 or 16, so the two of Fig. 4 and the lock word do not fit
 * one compare-and-swap (fgi_trylock). tau is counted in PAUSEs, which take 15 to 50 ns by CPU, without calibration. */
#ifndef FGI_PARTS_PREEMPTABLE_TICKET_H
#define FGI_PARTS_PREEMPTABLE_TICKET_H

#include "locks/parts/tickets.h"

struct fg_lock {
	uint32_t num_request; /* Fig. 3: tickets.tail */
	uint32_t num_grant;   /* Fig. 3: tickets.head */
	uint32_t lock;
	uint32_t forks;
};

/* tau, 1 to 3 us: section 4.2 wants slightly more than a section usually lasts, about 2 us. Fig. 3 has 2^14 turns of
 * its loop: by section 3 of the paper, where 2048 turns take about 1 us, that is 8 us, four times as long as section
 * 4.2 wants. Here 2^14 turns would be 256 times TAU_SPINS and 250 to 800 us, so that a waiter which is off CPU holds
 * the others up for long.
 * lab/variants/preemptable-ticket-tau.inc.h has other values. */
#ifndef TAU_SPINS
#define TAU_SPINS 64u
#endif

static inline void check_fork(struct fg_lock *l)
{
	if (!fgi_tickets_good(&l->forks))
		fgi_tickets_repair(&l->forks, &l->num_request, &l->num_grant, l->lock != 0);
}

/* Lines 5 to 27: draws a ticket and waits until the lock word may be tried, or the deadline has passed. */
static inline void draw_and_wait(struct fg_lock *l, struct fgi_spin_budget *p)
{
	uint32_t ticket, grant, now;
	uint64_t timeout;

	check_fork(l);
	ticket = fg_fetch_add_relaxed(&l->num_request, 1);
	grant = fg_load_relaxed(&l->num_grant);
	timeout = (uint64_t)TAU_SPINS * (ticket - grant);
	while ((int32_t)(ticket - (now = fg_load_relaxed(&l->num_grant))) > 0) {
		if (now != grant) {
			grant = now;
			timeout = (uint64_t)TAU_SPINS * (ticket - grant);
		}
		if (timeout-- == 0 || (p->deadline && fgi_deadline_reached(p)))
			break;
		fgi_spin_once();
	}
}

/* One ticket less to wait for: by the holder, which releases, or by a waiter that gives up. Those behind move up. */
static inline void grant_one(struct fg_lock *l)
{
	fg_fetch_add_relaxed(&l->num_grant, 1);
}

/* Fig. 4, lines 1 to 4. */
static inline bool fgi_is_locked(struct fg_lock *l)
{
	return fg_load_relaxed(&l->num_request) != fg_load_relaxed(&l->num_grant) || fg_load_relaxed(&l->lock) != 0;
}

/* Fig. 4, lines 6 to 22. The word is taken first and the ticket drawn after it: a thread that draws one in between is
 * overtaken once. */
static inline bool fgi_trylock(struct fg_lock *l)
{
	check_fork(l);
	if (fgi_is_locked(l) || fgi_take_cas32(&l->lock, 1) != 0)
		return false;
	fg_fetch_add_relaxed(&l->num_request, 1);
	return true;
}

#endif
