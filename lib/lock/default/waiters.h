/* SPDX-License-Identifier: MIT */
/* What a lock knows of its waiters, in one word:
 *
 *   bits 25 to 31   for which process this holds: the number of forks behind it, modulo 128. A child begins with 0:
 *                   its parent's threads are not in it
 *   bit 24          the lock is hot (lock/default/pace.h)
 *   bits 21 to 23   how many waiters watch the lock
 *   bits 11 to 20   how many are parked and needy: the next release has to wake one
 *   bits 0 to 10    how many others are parked, which have clocks
 *
 * A waiter that finds its count full is not counted. A parked one has a clock then. */
#ifndef FGI_DEFAULT_WAITERS_H
#define FGI_DEFAULT_WAITERS_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/atomic.h"
#include "runtime/thread.h"

/* One waiter more of each kind. (NEEDY of the lock's word is a flag: whether a release has to wake one.) */
#define FGI_ONE_CLOCKED 1u
#define FGI_ONE_NEEDY (1u << 11)
#define FGI_ONE_WATCHER (1u << 21)
#define FGI_HOT (1u << 24)
#define FGI_PROCESS (1u << 25)

/* The word of a lock for which no thread of this process waits. fgi_forks counts by twos. */
static inline uint32_t fgi_waiters_none(void)
{
	return fg_load_relaxed(&fgi_forks) / 2 * FGI_PROCESS;
}

/* Without what another process left there. */
static inline uint32_t fgi_waiters_here(uint32_t waiters)
{
	uint32_t none = fgi_waiters_none();

	return (waiters ^ none) < FGI_PROCESS ? waiters : none;
}

static inline uint32_t fgi_clocked(uint32_t waiters)
{
	return fgi_waiters_here(waiters) % FGI_ONE_NEEDY;
}

static inline uint32_t fgi_needy(uint32_t waiters)
{
	return fgi_waiters_here(waiters) % FGI_ONE_WATCHER / FGI_ONE_NEEDY;
}

static inline uint32_t fgi_watchers(uint32_t waiters)
{
	return fgi_waiters_here(waiters) % FGI_HOT / FGI_ONE_WATCHER;
}

static inline bool fgi_hot(uint32_t waiters)
{
	return fgi_waiters_here(waiters) & FGI_HOT;
}

/* Counts the caller as `one` of FGI_ONE_CLOCKED, FGI_ONE_NEEDY or FGI_ONE_WATCHER. Returns what it has added, for the
 * same process's fgi_leave; 0: the count is full. release: pairs with the acquire of the thread that takes the lock
 * next (flags_of). */
static inline uint32_t fgi_join(uint32_t *waiters, uint32_t one)
{
	uint32_t end = one == FGI_ONE_CLOCKED ? FGI_ONE_NEEDY : FGI_ONE_WATCHER, found, here;

	if (one == FGI_ONE_WATCHER)
		end = FGI_HOT;
	for (uint32_t seen = fg_load_relaxed(waiters);; seen = found) {
		here = fgi_waiters_here(seen);
		if (here % end / one == end / one - 1)
			return 0;
		found = fg_cas_release(waiters, seen, here + one);
		if (found == seen)
			return fgi_waiters_none() + one;
	}
}

/* A signal handler of a waiter may have forked: then this is the child, which has never counted itself. */
static inline void fgi_leave(uint32_t *waiters, uint32_t joined)
{
	if (joined && fgi_waiters_here(joined) == joined)
		fg_fetch_sub_release(waiters, joined % FGI_PROCESS);
}

#endif
