/* SPDX-License-Identifier: MIT */
/* arm64: release of a lock word that holds its owner and, in its highest bits, flags that others set by
 * compare-and-swap. Atomic, so who sets a flag needs no membarrier here, and loses nothing by one. */
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
