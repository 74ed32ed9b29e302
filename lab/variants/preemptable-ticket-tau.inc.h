/* SPDX-License-Identifier: MIT */
/* locks/published/preemptable-ticket.inc.h with another tau, in spins (VEE'13, section 4.2): with 0 a waiter tries the
 * lock word at once, whatever its ticket; the longer tau is, the more it is a ticket lock.
 *
 * All else, I1 to I5 and memory, is as in that file. */
#define TAU_SPINS FGB_TAU_SPINS
#include "locks/published/preemptable-ticket.inc.h"
