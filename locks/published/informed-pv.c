/* SPDX-License-Identifier: MIT */
/* The informed spinlock, PV form (I-Spinlock, EuroSys'17, section 4; locks/parts/informed.h has the algorithm).
 *
 * Waiting policy: with a ticket, spin in order. Without, because the slice is too short for one, give the CPU away
 * (Fig. 5, line 35: a hypercall there, sched_yield here), and draw a ticket when it comes back. Where nobody else wants
 * the CPU sched_yield returns at once; then nobody takes it away either. */
#include "locks/parts/informed.h"

static inline void await_next_slice(uint64_t published, uint64_t end)
{
	(void)published;
	(void)end;
	sched_yield(); /* no cancellation point, never fails */
}
