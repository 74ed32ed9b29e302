/* SPDX-License-Identifier: MIT */
/* The spinlock with time-slice extension: section 5.1 (ix), after the spinlock that came with the kernel's patches
 * (section 2.4). locks/published/tas.c has the lock, its states and its invariants, locks/parts/slice_extended.h the
 * extension.
 *
 * Waiting policy: spin, always. A holder is preempted only if its section outlasts the extension, but waiters still
 * burn time slices that a holder could use.
 * Deviation: the patches' spinlock is test-and-test-and-set. */
#define FGI_EXTENDED_LOCK "locks/published/tas.c"
#include "locks/parts/slice_extended.h"
