/* SPDX-License-Identifier: MIT */
/* The informed spinlock, PV form (I-Spinlock, EuroSys'17, section 4). locks/parts/informed.h has the algorithm and the
 * deviations.
 *
 * Waiting policy: with a ticket, spin in order. Without one, because the slice is too short, give the CPU away (Fig. 5,
 * line 35: a hypercall there, sched_yield here), and draw a ticket when the CPU comes back. If no other thread wants
 * the CPU, sched_yield returns at once; then no thread takes the CPU away either. */
#include "locks/parts/informed.h"

static inline void await_next_slice(uint64_t published, uint64_t end)
{
	(void)published;
	(void)end;
	fgi_spin_yield();
}
