/* SPDX-License-Identifier: MIT */
/* The default lock with time-slice extension. locks/default/flexguard.c has the lock, its states and its invariants,
 * locks/parts/slice_extended.h the extension. The published combination (section 5.1 (x)) is
 * locks/published/flexguard-sosp25-slice.c.
 *
 * Waiting policy: a holder that is due to lose its CPU extends its slice first. Its waiters go on meanwhile: for them
 * the owner is at work. When it is preempted all the same, because the section outlasts the extension, the monitor
 * counts it and they give way as without the extension. Waiters are not extended. */
#define FGI_EXTENDED_LOCK "locks/default/flexguard.c"
#include "locks/parts/slice_extended.h"
