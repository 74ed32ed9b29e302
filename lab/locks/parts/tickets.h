/* SPDX-License-Identifier: MIT */
/* Tickets and fork.
 *
 * Each ticket that was drawn is one for whose thread the lock will wait. In the child of a fork these threads do not
 * exist, and the lock would wait for ever. So a lock with tickets also keeps for which process they are good: `forks`,
 * to be compared with fgi_forks (runtime/thread.h).
 *
 *   forks            meaning
 *   == fgi_forks     good
 *   fgi_forks | 1    a thread of this process is about to make it good
 *   otherwise        from before the fork (or newly zeroed memory): only the holder's ticket, if any, counts
 *
 * Every operation on the lock looks at it first, so the first thread that uses the lock in the child repairs it. */
#ifndef FGI_PARTS_TICKETS_H
#define FGI_PARTS_TICKETS_H

#include "lock/lock.h"

/* A thread says that it is critical once its ticket is served. tests/slices/preempted.c, which measures how many
 * threads are preempted while they hold or wait for a lock, has them say so as soon as the ticket is drawn. */
#ifndef FGI_TICKET_DRAWN
#define FGI_TICKET_DRAWN() ((void)0)
#define FGI_TICKET_SERVED() fgi_held_raise()
#endif

/* acquire: pairs with the release in fgi_tickets_repair. */
static inline bool fgi_tickets_good(const uint32_t *forks)
{
	return fg_likely(fg_load_acquire(forks) == fg_load_relaxed(&fgi_forks));
}

/* Sets the next ticket so that only the `holders` (0 or 1) are queued. The caller has read `holders` before. */
__attribute__((noinline, cold, unused)) static void fgi_tickets_repair(uint32_t *forks, uint32_t *next,
								       const uint32_t *serving, uint32_t holders)
{
	uint32_t now = fg_load_relaxed(&fgi_forks), seen;

	while ((seen = fg_load_acquire(forks)) != now) {
		if (seen != (now | 1) && fg_cas_acquire(forks, seen, now | 1) == seen) {
			fg_store_relaxed(next, fg_load_relaxed(serving) + holders);
			fg_store_release(forks, now);
		} else {
			fgi_spin_once();
		}
	}
}

/* The next ticket is served already iff the lock is free; so it is drawn only if it is still the next one. */
static inline bool fgi_tickets_try(uint32_t *next, const uint32_t *serving)
{
	uint32_t served = fg_load_acquire(serving);

	if (fg_load_relaxed(next) != served || fg_cas_acquire(next, served, served + 1) != served)
		return false;
	fgi_held_raise();
	return true;
}

#endif
