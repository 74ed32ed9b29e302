/* SPDX-License-Identifier: MIT */
/* Tickets and fork.
 *
 * A ticket that was drawn is a promise: its thread will come, take the lock and pass it on. In the child of a fork the
 * other threads' promises are void, and a lock that waits for them waits for ever. So each lock word with tickets also
 * says for which process its tickets are good: `forks`, to be compared with fgi_forks (runtime/thread.h).
 *
 *   forks            meaning
 *   == fgi_forks     good
 *   fgi_forks | 1    a thread of this process is about to make it good
 *   otherwise        from before the fork (or newly zeroed memory): only the holder's ticket, if any, counts
 *
 * Every operation on the lock asks first; so whoever comes first in the child repairs the lock, then changes it. */
#ifndef FGI_LOCKS_TICKETS_H
#define FGI_LOCKS_TICKETS_H

#include <stdbool.h>

#include "runtime/arch/arch.h"
#include "runtime/thread.h"

/* When a thread says that it is critical: once it is served. A measurement of how many threads are preempted while they
 * hold or wait for a lock (tests/slices/preempted.c) has it said as soon as the ticket is drawn. */
#ifndef FGI_TICKET_DRAWN
#define FGI_TICKET_DRAWN() ((void)0)
#define FGI_TICKET_SERVED() fgi_held_raise()
#endif

/* acquire: pairs with the release in fgi_tickets_repair. */
static inline bool fgi_tickets_good(const uint32_t *forks)
{
	return fg_likely(fg_load_acquire(forks) == fg_load_relaxed(&fgi_forks));
}

/* Sets the next ticket so that nobody is queued but the `holders` (0 or 1). The caller has read `holders` before. */
__attribute__((noinline, cold, unused)) static void fgi_tickets_repair(uint32_t *forks, uint32_t *next,
								       const uint32_t *serving, uint32_t holders)
{
	uint32_t now = fg_load_relaxed(&fgi_forks), seen;

	while ((seen = fg_load_acquire(forks)) != now) {
		if (seen != (now | 1) && fg_cas_acquire(forks, seen, now | 1) == seen) {
			fg_store_relaxed(next, fg_load_relaxed(serving) + holders);
			fg_store_release(forks, now);
		} else {
			fg_pause();
		}
	}
}

#endif
