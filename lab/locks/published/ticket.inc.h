/* SPDX-License-Identifier: MIT */
/* The ticket lock (Mellor-Crummey and Scott 1991; section 2.1.2).
 *
 *   next, serving            meaning
 *   next == serving          free
 *   next == serving + 1      held, no thread waits
 *   next == serving + 1 + n  held, n threads wait; or about to be taken by the thread with ticket `serving`
 *   forks                    for which process the tickets are good (locks/parts/tickets.h)
 *
 * Waiting policy: spin, always, all waiters on `serving`; strictly first come, first served (I4), so it collapses as
 * soon as one waiter is off CPU. A ticket cannot be handed back, so a timed wait polls without drawing one.
 * I1  `serving` is written by the holder alone, and each ticket is drawn once (2^32 - 1 waiters at most).
 * I5  The release is a window, and exact. A thread becomes the owner when it sees its ticket served, or draws a ticket
 *     that is, and says so in `held` a few instructions later: the monitor misses a preemption just there. It also
 *     misses a waiter that is off CPU when its ticket is served.
 * Memory: 12 bytes; nothing per thread. */
#include "locks/parts/tickets.h"

struct fg_lock {
	uint32_t next;
	uint32_t serving;
	uint32_t forks;
	uint32_t unused;
};

static inline void check_fork(struct fg_lock *l)
{
	if (!fgi_tickets_good(&l->forks))
		fgi_tickets_repair(&l->forks, &l->next, &l->serving, l->next != l->serving);
}

static inline void fgi_lock(struct fg_lock *l)
{
	uint32_t ticket;

	check_fork(l);
	ticket = fg_fetch_add_relaxed(&l->next, 1);
	FGI_TICKET_DRAWN();
	/* acquire: pairs with the holder's release of `serving` */
	while (fg_load_acquire(&l->serving) != ticket)
		fgi_spin_once();
	FGI_TICKET_SERVED();
}

static inline bool fgi_trylock(struct fg_lock *l)
{
	check_fork(l);
	return fgi_tickets_try(&l->next, &l->serving);
}

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	return fgi_poll(l, clock, abs);
}

static inline void fgi_unlock(struct fg_lock *l)
{
	check_fork(l);
	fgi_drop_store32(&l->serving, l->serving + 1);
}
