/* SPDX-License-Identifier: MIT */
/* Ticket locks whose waiters halt: what locks/published/ticket-pv.inc.h and oticket.inc.h share. Halting is a futex
 * wait, and the hypercall that wakes the next virtual CPU a futex wake of those who halt as it does. A file says how
 * long a waiter spins that has so many tickets to wait for:
 *
 *   #define FGI_ACTIVE_SPINS(ahead)
 *
 *   next                    the next ticket to draw
 *   serving, without FLAG   the ticket that owns the lock; free if it is `next`
 *   serving, FLAG           waiters may halt; only while there are any
 *   forks                   for which process the tickets are good (locks/parts/tickets.h)
 *
 * Tickets are counted modulo 2^31. A waiter halts in the group of its ticket, modulo 32, and halts again if it is woken
 * in vain.
 *
 * I1  `serving` without FLAG is written by the holder alone, and each ticket is drawn once.
 * I2  A waiter halts only while FLAG is set. A release that leaves it set wakes the group of the next ticket, so nobody
 *     else's turn is lost. A release that clears a FLAG that was set meanwhile wakes all; they set it again.
 * I4  First come, first served. I5  As locks/published/ticket.inc.h: the release is exact. */
#ifndef FGI_PARTS_HALTING_TICKET_H
#define FGI_PARTS_HALTING_TICKET_H

#include <limits.h>

#include "locks/parts/tickets.h"

#define FLAG 0x80000000u
#define TICKETS 0x7fffffffu

struct fg_lock {
	uint32_t next;
	uint32_t serving;
	uint32_t forks;
	uint32_t unused;
};

static inline void check_fork(struct fg_lock *l)
{
	uint32_t serving;

	if (fgi_tickets_good(&l->forks))
		return;
	serving = fg_load_relaxed(&l->serving) & TICKETS;
	fgi_tickets_repair(&l->forks, &l->next, &serving, (fg_load_relaxed(&l->next) & TICKETS) != serving);
}

static inline uint32_t group_of(uint32_t ticket)
{
	return 1u << ticket % 32;
}

/* Sleeps until a release wakes this ticket's group, if `seen` is still what serves. */
static void halt(struct fg_lock *l, uint32_t ticket, uint32_t seen)
{
	if (!(seen & FLAG) && fg_cas_relaxed(&l->serving, seen, seen | FLAG) != seen)
		return;
	fg_thread.parks++;
	fgi_futex_wait_as(&l->serving, seen | FLAG, CLOCK_MONOTONIC, NULL, group_of(ticket));
}

static inline void fgi_lock(struct fg_lock *l)
{
	uint32_t ticket, seen, spins = 0;

	check_fork(l);
	ticket = fg_fetch_add_relaxed(&l->next, 1) & TICKETS;
	FGI_TICKET_DRAWN();
	/* acquire: pairs with the holder's release of `serving` */
	while (((seen = fg_load_acquire(&l->serving)) & TICKETS) != ticket) {
		if (spins++ < FGI_ACTIVE_SPINS((ticket - seen) & TICKETS)) {
			fgi_spin_once();
			continue;
		}
		halt(l, ticket, seen);
		spins = 0;
	}
	FGI_TICKET_SERVED();
}

/* The next ticket is served already iff the lock is free; so it is drawn only if it is still the next one. */
static inline bool fgi_trylock(struct fg_lock *l)
{
	uint32_t next, serving;

	check_fork(l);
	serving = fg_load_acquire(&l->serving) & TICKETS;
	next = fg_load_relaxed(&l->next);
	if ((next & TICKETS) != serving || fg_cas_acquire(&l->next, next, next + 1) != next)
		return false;
	fgi_held_raise();
	return true;
}

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	return fgi_poll(l, clock, abs);
}

static inline void fgi_unlock(struct fg_lock *l)
{
	uint32_t serving, then, kept;

	check_fork(l);
	serving = fg_load_relaxed(&l->serving);
	then = (serving + 1) & TICKETS;
	kept = (fg_load_relaxed(&l->next) & TICKETS) == then ? 0 : serving & FLAG;
	if (fg_likely(!(fgi_drop_xchg32(&l->serving, then | kept) & FLAG)))
		return;
	if (kept)
		fgi_futex_wake_as(&l->serving, INT_MAX, group_of(then));
	else
		fgi_futex_wake(&l->serving, INT_MAX);
}

#endif
