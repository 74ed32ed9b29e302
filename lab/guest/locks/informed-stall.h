/* SPDX-License-Identifier: GPL-2.0-only */
/* The informed spinlock, HVM form, with our rule for a stalled queue, which the paper does not have. informed.h has the
 * lock and how it waits, tickets-informed.h the rule.
 *
 * Waiting policy: as informed, but no virtual CPU draws a ticket while the tickets drawn before it are stalled: it
 * spins. */

/* Some 0.5 ms: longer than a queue of running virtual CPUs takes, shorter than a slice. */
#define INFORMED_STALL_SPINS 16384

#include "informed.h"
