/* SPDX-License-Identifier: MIT */
/* What both preemptable ticket locks share (Ouyang and Lange, VEE'13, section 4 and Fig. 3, 4): the tickets, which only
 * order the waiters, beside a lock word, which alone decides.
 *
 *   num_request - num_grant   threads that have drawn a ticket and not released the lock yet, the holder among them
 *   lock                      0 free, otherwise held
 *   forks                     for which process the tickets are good (locks/parts/tickets.h)
 *
 * A waiter's position is n = ticket - num_grant. It may try the lock word when n <= 0, or when it has waited n * tau
 * since the last grant: then somebody before it is taken for preempted, and overtaken. Overtaken threads find n < 0
 * when they run again, and try at once. Nobody waits for a particular thread, so no waiter holds up the others. */
#ifndef FGI_LOCKS_PREEMPTABLE_TICKET_H
#define FGI_LOCKS_PREEMPTABLE_TICKET_H

#include <stdbool.h>
#include <stdint.h>

#include "locks/parts/tickets.h"

struct fg_lock {
	uint32_t num_request; /* Fig. 3: tickets.tail */
	uint32_t num_grant;   /* Fig. 3: tickets.head */
	uint32_t lock;
	uint32_t forks;
};

/* tau, in turns of 15 to 50 ns: section 4.2 wants slightly more than a section usually lasts, about 2 us. (Fig. 3 has
 * 2^14 turns, a hundred times that: there a waiter that is off its CPU holds the others up for a slice after all.) */
#define TAU_TURNS 64u

static inline void check_fork(struct fg_lock *l)
{
	if (!fgi_tickets_good(&l->forks))
		fgi_tickets_repair(&l->forks, &l->num_request, &l->num_grant, l->lock != 0);
}

/* Lines 5 to 27: draws a ticket and waits until the lock word may be tried. */
static inline void draw_and_wait(struct fg_lock *l)
{
	uint32_t ticket, grant, now, timeout;

	check_fork(l);
	ticket = fg_fetch_add_relaxed(&l->num_request, 1);
	grant = fg_load_relaxed(&l->num_grant);
	timeout = TAU_TURNS * (ticket - grant);
	while ((int32_t)(ticket - (now = fg_load_relaxed(&l->num_grant))) > 0) {
		if (now != grant) {
			grant = now;
			timeout = TAU_TURNS * (ticket - grant);
		}
		if (timeout-- == 0)
			break;
		fg_thread.spins++;
		fg_pause();
	}
}

/* One ticket less to wait for. By the holder, who releases; or by a waiter, who gives up: those behind move up. */
static inline void grant_one(struct fg_lock *l)
{
	fg_fetch_add_relaxed(&l->num_grant, 1);
}

/* Fig. 4, lines 1 to 4. */
static inline bool fgi_is_locked(struct fg_lock *l)
{
	return fg_load_relaxed(&l->num_request) != fg_load_relaxed(&l->num_grant) || fg_load_relaxed(&l->lock) != 0;
}

/* Fig. 4, lines 6 to 22; but three 32-bit words do not fit one compare-and-swap, so the word is taken first and the
 * ticket drawn after it: whoever draws one in between is overtaken once. */
static inline bool fgi_trylock(struct fg_lock *l)
{
	check_fork(l);
	if (fgi_is_locked(l) || fgi_take_cas32(&l->lock, 1) != 0)
		return false;
	fg_fetch_add_relaxed(&l->num_request, 1);
	return true;
}

#endif
