/* SPDX-License-Identifier: MIT */
/* Static buckets, found by an object's address, and the lock of one: a futex lock, not an interposed one. A bucket is
 * locked for some ten instructions, by threads that wait or wake. A thread that has it locked is in no critical section
 * of the program's, which is all that the monitor wants to know.
 *
 * A collector of garbage stops threads by a signal, and one of them may have a bucket locked until all go on. Meanwhile
 * the collector uses objects that no stopped thread uses. So the first objects have a bucket each, and keep it for
 * ever. Those that come when these are taken share other buckets.
 *
 *   word   0 free, 1 held, 2 held and perhaps waited for */
#ifndef FGI_SYNC_BUCKET_H
#define FGI_SYNC_BUCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "runtime/arch/arch.h"
#include "runtime/atomic.h"
#include "runtime/clock.h"
#include "runtime/futex.h"
#include "runtime/hash.h"

#define FGI_BUCKET_SPINS 64 /* before a waiter sleeps: longer than a bucket is locked */
/* Then it looks by itself: a signal handler may jump out between an unlock and its wake-up. */
#define FGI_BUCKET_LOOK_NS 10000000u

/* 256 of each kind, each of a cache line. Objects that share a bucket share moments only, so the number needs no
 * tuning. */
#define FGI_BUCKET_BITS 8
#define FGI_OWN_BUCKETS (1u << FGI_BUCKET_BITS)
#define FGI_BUCKETS (2 * FGI_OWN_BUCKETS) /* those that are shared have the higher numbers */
#define FGI_BUCKET_TRIES 8                /* buckets that an object may have for its own */

/* Whose they are; 0: nobody's yet. */
extern uintptr_t fgi_bucket_owners[FGI_OWN_BUCKETS] __attribute__((visibility("hidden")));

unsigned int fgi_bucket_find(const void *object, unsigned int hash);

/* An owner never changes, so an object that asks again finds the same. relaxed: nothing else rests on it. */
static inline unsigned int fgi_bucket_of(const void *object)
{
	unsigned int hash = (unsigned int)fgi_hash_of(object, FGI_BUCKET_BITS);

	if (fg_likely(fg_load_relaxed(&fgi_bucket_owners[hash]) == (uintptr_t)object))
		return hash;
	return fgi_bucket_find(object, hash);
}

static inline void fgi_bucket_lock(uint32_t *word)
{
	if (fg_likely(fg_cas_acquire(word, 0, 1) == 0))
		return;
	for (int spins = FGI_BUCKET_SPINS; spins && fg_load_relaxed(word); spins--)
		fg_pause();
	while (fg_xchg_acquire(word, 2) != 0) {
		struct timespec look = fgi_timespec(fgi_now_ns(CLOCK_MONOTONIC) + FGI_BUCKET_LOOK_NS);

		fgi_futex_wait(word, 2, CLOCK_MONOTONIC, &look);
	}
}

/* Returns whether the caller has to wake one that waits at the word. */
static inline bool fgi_bucket_unlock(uint32_t *word)
{
	return fg_xchg_release(word, 0) == 2; /* pairs with the acquires in fgi_bucket_lock */
}

#endif
