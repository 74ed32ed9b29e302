/* SPDX-License-Identifier: MIT */
#include "runtime/futex.h"

#include <errno.h>
#include <linux/futex.h>

#include "runtime/clock.h"
#include "runtime/system.h"

int fgi_futex_wait_as(uint32_t *word, uint32_t expected, clockid_t clock, const struct timespec *abs, uint32_t as)
{
	/* The BITSET form is the one that takes absolute times. */
	int op = FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG | (clock == CLOCK_REALTIME ? FUTEX_CLOCK_REALTIME : 0);

	if (abs && abs->tv_sec < 0) /* before the epoch: EINVAL to the kernel, past to POSIX */
		return ETIMEDOUT;
	return (int)-fgi_system_call(SYS_futex, (long)word, op, expected, (long)abs, 0, as);
}

int fgi_futex_wait(uint32_t *word, uint32_t expected, clockid_t clock, const struct timespec *abs)
{
	return fgi_futex_wait_as(word, expected, clock, abs, FGI_ANYBODY);
}

int fgi_futex_wake_as(uint32_t *word, int n, uint32_t as)
{
	int op = as == FGI_ANYBODY ? FUTEX_WAKE : FUTEX_WAKE_BITSET; /* sandboxes allow the former more often */
	long woken = fgi_system_call(SYS_futex, (long)word, op | FUTEX_PRIVATE_FLAG, n, 0, 0, as);

	return woken < 0 ? 0 : (int)woken;
}

int fgi_futex_wake(uint32_t *word, int n)
{
	return fgi_futex_wake_as(word, n, FGI_ANYBODY);
}

int fgi_futex_wait_shared(uint32_t *word, uint32_t expected, uint64_t until_ns)
{
	struct timespec until = fgi_timespec(until_ns);

	return (int)-fgi_system_call(SYS_futex, (long)word, FUTEX_WAIT_BITSET, expected, (long)&until, 0,
				     FUTEX_BITSET_MATCH_ANY);
}

int fgi_futex_wake_shared(uint32_t *word, int n)
{
	long woken = fgi_system_call(SYS_futex, (long)word, FUTEX_WAKE, n, 0, 0, 0);

	return woken < 0 ? 0 : (int)woken;
}

void fgi_nap(uint32_t ns)
{
	uint32_t word = 0; /* no other thread knows it, so the sleep ends by the clock */
	struct timespec until = fgi_timespec(fgi_now_ns(CLOCK_MONOTONIC) + ns);

	fgi_futex_wait(&word, 0, CLOCK_MONOTONIC, &until);
}
