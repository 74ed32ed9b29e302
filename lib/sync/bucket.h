/* SPDX-License-Identifier: MIT */
/* Static buckets, found by an object's address, and the lock of one: a futex lock, not an interposed one. A bucket is
 * locked for some ten instructions, by threads that wait or wake. A thread that has it locked is in no critical section
 * of the program's, which is all that the monitor wants to know.
 *
 *   word   0 free, 1 held, 2 held and perhaps waited for */
#ifndef FGI_SYNC_BUCKET_H
#define FGI_SYNC_BUCKET_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "runtime/arch/arch.h"
#include "runtime/atomic.h"
#include "runtime/futex.h"
#include "runtime/hash.h"

#define FGI_BUCKET_SPINS 64 /* before a waiter sleeps: longer than a bucket is locked */

/* 256 of a cache line. Objects that share a bucket share moments only, so the number needs no tuning. */
#define FGI_BUCKET_BITS 8
#define FGI_BUCKETS (1u << FGI_BUCKET_BITS)

static inline unsigned int fgi_bucket_of(const void *object)
{
	return (unsigned int)fgi_hash_of(object, FGI_BUCKET_BITS);
}

static inline void fgi_bucket_lock(uint32_t *word)
{
	if (fg_likely(fg_cas_acquire(word, 0, 1) == 0))
		return;
	for (int spins = FGI_BUCKET_SPINS; spins && fg_load_relaxed(word); spins--)
		fg_pause();
	while (fg_xchg_acquire(word, 2) != 0)
		fgi_futex_wait(word, 2, CLOCK_MONOTONIC, NULL);
}

static inline void fgi_bucket_unlock(uint32_t *word)
{
	if (fg_unlikely(fg_xchg_release(word, 0) == 2)) /* pairs with the acquires in fgi_bucket_lock */
		fgi_futex_wake(word, 1);
}

#endif
