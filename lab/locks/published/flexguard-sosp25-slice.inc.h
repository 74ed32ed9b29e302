/* SPDX-License-Identifier: MIT */
/* FlexGuard as published, with time-slice extension: section 5.1 (x), section 2.4.
 * locks/published/flexguard-sosp25.inc.h has the lock, its states, its invariants and its deviations,
 * lock/slice_extended.h those of the extension.
 *
 * Waiting policy: a holder that is due to lose its CPU extends its slice first, and all go on spinning. When the holder
 * is preempted because the section outlasts the extension, the monitor counts it and all block. The next
 * waiter (the head of the queue) is not extended. */
#define FGI_EXTENDED_LOCK "locks/published/flexguard-sosp25.inc.h"
#include "lock/slice_extended.h"
