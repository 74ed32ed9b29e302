/* SPDX-License-Identifier: MIT */
/* The informed spinlock, HVM form, with our rule for a stalled queue, which the paper does not have.
 * locks/published/informed.inc.h has the lock and how it waits, locks/parts/informed.h the rule.
 *
 * Waiting policy: as informed, but no thread draws a ticket while the tickets drawn before it are stalled: it waits for
 * one slice after the other. */

/* Some 0.5 ms: longer than a queue of running threads takes, shorter than a slice (docs/results/slice-forecast.md). */
#define INFORMED_STALL_SPINS 16384u

#include "locks/published/informed.inc.h"
