/* SPDX-License-Identifier: MIT */
/* locks/published/preemptable-ticket.c with another tau, in turns (VEE'13, section 4.2): with 0 a waiter tries the lock
 * word at once, whatever its ticket; the longer tau is, the more it is a ticket lock.
 *
 * All else, I1 to I5 and memory, is as in that file. */
#define TAU_TURNS FGB_TAU_TURNS
#include "locks/published/preemptable-ticket.c"
