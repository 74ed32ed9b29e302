/* SPDX-License-Identifier: MIT */
#include "src/futex.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

int fgi_futex_wait(uint32_t *word, uint32_t expected, clockid_t clock, const struct timespec *abs)
{
	/* The BITSET form is the one that takes absolute times. */
	int op = FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG | (clock == CLOCK_REALTIME ? FUTEX_CLOCK_REALTIME : 0);
	int saved = errno, result = 0;

	if (abs && abs->tv_sec < 0) /* before the epoch: the kernel says EINVAL, POSIX says it has passed */
		return ETIMEDOUT;
	if (syscall(SYS_futex, word, op, expected, abs, NULL, FUTEX_BITSET_MATCH_ANY) < 0)
		result = errno;
	errno = saved;
	return result;
}

int fgi_futex_wake(uint32_t *word, int n)
{
	int saved = errno;
	long woken = syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, n, NULL, NULL, 0);

	errno = saved;
	return woken < 0 ? 0 : (int)woken;
}

void fgi_nap(uint32_t ns)
{
	uint32_t word = 0; /* nobody else knows it, so nobody wakes us */
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += ns % 1000000000u;
	until.tv_sec += ns / 1000000000u + (until.tv_nsec >= 1000000000);
	until.tv_nsec %= 1000000000;
	fgi_futex_wait(&word, 0, CLOCK_MONOTONIC, &until);
}
