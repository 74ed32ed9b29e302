/* SPDX-License-Identifier: MIT */
/* The default lock with time-slice extension. lock/default/flexguard.inc.h has the lock, its states and its invariants,
 * lock/slice_extended.h the extension. The published combination (section 5.1 (x)) is
 * flexguard-sosp25-slice.
 *
 * Waiting policy: a holder that is due to lose its CPU extends its slice first. Its waiters go on meanwhile: for them
 * the owner is at work. When it is preempted because the section outlasts the extension, the monitor
 * counts it and they give way as without the extension. Waiters are not extended. */
#define FGI_EXTENDED_LOCK "lock/default/flexguard.inc.h"
#include "lock/slice_extended.h"
