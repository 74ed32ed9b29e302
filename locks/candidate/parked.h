/* SPDX-License-Identifier: MIT */
/* How many waiters are parked at a lock, in one word:
 *
 *   bits 26 to 31   for which process the counts hold: the number of forks behind it, modulo 64. A child begins
 *                   with 0: its parent's threads are not in it
 *   bits 13 to 25   how many are needy: the next release has to wake one
 *   bits 0 to 12    how many others, which have clocks
 *
 * A waiter that finds its count full is not counted; it has a clock then. */
#ifndef FGI_CANDIDATE_PARKED_H
#define FGI_CANDIDATE_PARKED_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/atomic.h"
#include "runtime/thread.h"

#define FGI_PARKED_ONE 1u
#define FGI_PARKED_MOST ((1u << 13) - 1)
#define FGI_PARKED_NEEDY (1u << 13)
#define FGI_PARKED_PROCESS (1u << 26)

/* The word of a lock at which no thread of this process is parked. fgi_forks counts by twos. */
static inline uint32_t fgi_parked_none(void)
{
	return fg_load_relaxed(&fgi_forks) / 2 * FGI_PARKED_PROCESS;
}

/* Without the counts of another process. */
static inline uint32_t fgi_parked_here(uint32_t parked)
{
	uint32_t none = fgi_parked_none();

	return (parked ^ none) < FGI_PARKED_PROCESS ? parked : none;
}

static inline uint32_t fgi_parked_with_clocks(uint32_t parked)
{
	return fgi_parked_here(parked) & FGI_PARKED_MOST;
}

static inline uint32_t fgi_parked_needy(uint32_t parked)
{
	return fgi_parked_here(parked) / FGI_PARKED_NEEDY & FGI_PARKED_MOST;
}

static inline uint32_t fgi_parked(uint32_t parked)
{
	return fgi_parked_with_clocks(parked) + fgi_parked_needy(parked);
}

/* Counts the caller, as needy or not. Returns what it has added, for the same process's fgi_parked_leave; 0: the count
 * is full. release: pairs with the acquire of the thread that takes the lock next (flags_of). */
static inline uint32_t fgi_parked_join(uint32_t *parked, bool needy)
{
	uint32_t one = needy ? FGI_PARKED_NEEDY : FGI_PARKED_ONE, found, here;

	for (uint32_t seen = fg_load_relaxed(parked);; seen = found) {
		here = fgi_parked_here(seen);
		if ((here / one & FGI_PARKED_MOST) == FGI_PARKED_MOST)
			return 0;
		found = fg_cas_release(parked, seen, here + one);
		if (found == seen)
			return fgi_parked_none() + one;
	}
}

/* A signal handler of a parked thread may have forked: then this is the child, which has never counted itself. */
static inline void fgi_parked_leave(uint32_t *parked, uint32_t joined)
{
	if (joined && fgi_parked_here(joined) == joined)
		fg_fetch_sub_release(parked, joined % FGI_PARKED_PROCESS);
}

#endif
