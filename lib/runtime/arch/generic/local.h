/* SPDX-License-Identifier: MIT */
/* Read-modify-writes of a word that only this thread and its signal handlers write. arm64 has no instruction
 * that is atomic against interrupts only, so these are fully atomic. */
#ifndef FGI_ARCH_LOCAL_H
#define FGI_ARCH_LOCAL_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/atomic.h"

static inline void fgi_local_add(int32_t *word, int32_t value)
{
	fg_fetch_add_relaxed(word, value);
}

/* Adds 1. Other threads may read meanwhile. */
static inline void fgi_local_count(uint32_t *word)
{
	fg_store_relaxed(word, *word + 1);
}

/* Returns whether nothing is left. */
static inline bool fgi_local_subtract(uint64_t *word, uint64_t value)
{
	return fg_fetch_add_relaxed(word, -value) == value;
}

/* Returns what it found: it succeeded iff that equals what was expected. */
static inline uint64_t fgi_local_cas(uint64_t *word, uint64_t expected, uint64_t desired)
{
	return fg_cas_relaxed(word, expected, desired);
}

#endif
