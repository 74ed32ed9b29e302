/* SPDX-License-Identifier: MIT */
/* Futexes, private to the process unless the name says `shared`. All calls keep errno. */
#ifndef FGI_FUTEX_H
#define FGI_FUTEX_H

#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sleeps while *word == expected, until woken or until the absolute time `abs` on `clock` (CLOCK_REALTIME or
 * CLOCK_MONOTONIC; NULL: forever). 0 woken (perhaps spuriously), EAGAIN *word differed, EINTR a signal, ETIMEDOUT. */
int fgi_futex_wait(uint32_t *word, uint32_t expected, clockid_t clock, const struct timespec *abs);

/* The same for a sleeper of the groups `as`, a set of bits: fgi_futex_wake_as wakes sleepers that share a bit with its
 * own `as`; fgi_futex_wake wakes any. */
int fgi_futex_wait_as(uint32_t *word, uint32_t expected, clockid_t clock, const struct timespec *abs, uint32_t as);

#define FGI_ANYBODY 0xffffffffu /* all groups; fgi_futex_wait sleeps as this */

/* Wakes up to n sleepers, first come first served. Returns their number. `word` may point to memory that was freed:
 * then no thread sleeps there, or an unrelated one is woken spuriously, which every futex user must expect. */
int fgi_futex_wake(uint32_t *word, int n);
int fgi_futex_wake_as(uint32_t *word, int n, uint32_t as);

/* The same on a word in memory that processes share. One clock is enough: CLOCK_MONOTONIC. */
int fgi_futex_wait_shared(uint32_t *word, uint32_t expected, uint64_t until_ns);
int fgi_futex_wake_shared(uint32_t *word, int n);

/* Sleeps for about `ns`. Unlike nanosleep it is no cancellation point, as no lock call may be one. */
void fgi_nap(uint32_t ns);

#ifdef __cplusplus
}
#endif
#endif
