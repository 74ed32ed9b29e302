/* SPDX-License-Identifier: MIT */
/* locks/published/flexguard-sosp25.inc.h with the listing's values: the head takes one PAUSE between two tries (line
 * 51), and a waiter spins while the monitor counts nothing, however long. So without a monitor it never blocks.
 *
 * All else, I1 to I5 and memory, is as in that file. */
#define HEAD_PAUSES 1u
#define SPIN_IS_BOUNDED false
#include "locks/published/flexguard-sosp25.inc.h"
