/* SPDX-License-Identifier: MIT */
/* The three ways into a lock, chosen at random; tests/stress/wakeups.c takes them on hardware. */
#ifndef FGS_CHECK_WAYS_H
#define FGS_CHECK_WAYS_H

/* By the random number `r`: returns whether it got in. */
static bool enter(struct fg_lock *l, uint64_t r)
{
	struct timespec soon;

	switch (r % 16) {
	case 0:
		return fgi_trylock(l);
	case 1:
		soon = fgi_timespec(fgi_now_ns(CLOCK_MONOTONIC) + (r >> 8) % 200000);
		return fgi_timedlock(l, FGI_DEADLINE(CLOCK_MONOTONIC, &soon)) == 0;
	default:
		fgi_lock(l);
		return true;
	}
}

#endif
