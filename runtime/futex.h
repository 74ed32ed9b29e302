/* SPDX-License-Identifier: MIT */
/* Process-private futexes. Both keep errno. */
#ifndef FGI_FUTEX_H
#define FGI_FUTEX_H

#include <stdint.h>
#include <time.h>

/* Sleeps while *word == expected, until woken or until the absolute time `abs` on `clock` (CLOCK_REALTIME or
 * CLOCK_MONOTONIC; NULL: forever). 0 woken (perhaps spuriously), EAGAIN *word differed, EINTR a signal, ETIMEDOUT. */
int fgi_futex_wait(uint32_t *word, uint32_t expected, clockid_t clock, const struct timespec *abs);

/* The same, as one of those whom a wake-up with any of the bits `as` reaches. Every wake-up without bits does. */
int fgi_futex_wait_as(uint32_t *word, uint32_t expected, clockid_t clock, const struct timespec *abs, uint32_t as);

#define FGI_ANYBODY 0xffffffffu /* all bits: what a thread sleeps as unless told otherwise */

/* Wakes up to n sleepers, first come first served. Returns their number. `word` may point to memory that is freed by
 * now: then no thread sleeps there, or an unrelated one wakes up spuriously, which every futex user must tolerate. */
int fgi_futex_wake(uint32_t *word, int n);
int fgi_futex_wake_as(uint32_t *word, int n, uint32_t as);

/* Sleeps for about that long. Unlike nanosleep it is not a cancellation point, which no lock call may be. */
void fgi_nap(uint32_t ns);

#endif
