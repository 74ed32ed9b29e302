/* SPDX-License-Identifier: MIT */
/* The informed spinlock, HVM form (I-Spinlock, EuroSys'17, section 4). locks/parts/informed.h has the algorithm and the
 * deviations.
 *
 * Waiting policy: with a ticket, spin in order. Without one, because the slice is too short, spin until the next slice
 * (Fig. 5, lines 29 to 33; here the published end, which differs from slice to slice, stands for slice_ID), or until
 * the end has passed without a switch: then no other thread wanted the CPU, and a new slice has begun without a
 * switch. */
#include "locks/parts/informed.h"

static inline void await_next_slice(uint64_t published, uint64_t end)
{
	while (fgi_slice_published() == published && fgi_now_ns(CLOCK_MONOTONIC) < end + FGI_TICK_LATE_NS)
		fgi_spin_once();
}
