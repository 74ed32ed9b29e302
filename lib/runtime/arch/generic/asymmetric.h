/* SPDX-License-Identifier: MIT */
/* Release of a lock word that holds its owner and, in its highest bits, flags that other threads set by
 * compare-and-swap. The release is atomic, so a thread that sets a flag needs no membarrier here; one does no harm. */
#ifndef FGI_ARCH_ASYMMETRIC_H
#define FGI_ARCH_ASYMMETRIC_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/atomic.h"

/* Keeps the bits `kept` of the word. Returns whether the highest was set. The word is not touched afterwards. */
static inline bool fgi_asymmetric_release(uint32_t *word, uint32_t kept)
{
	return fg_fetch_and_release(word, kept) >> 31;
}

#endif
