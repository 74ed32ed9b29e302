/* SPDX-License-Identifier: MIT */
/* The informed spinlock, HVM form (I-Spinlock, EuroSys'17, section 4; locks/parts/informed.h has the algorithm).
 *
 * Waiting policy: with a ticket, spin in order. Without, because the slice is too short for one, spin until the next
 * slice (Fig. 5, lines 29 to 33: slice_ID is the published end here, which differs from slice to slice), or until the
 * end has passed without a switch: then nobody else wanted the CPU, and a new slice has begun in silence. */
#include "locks/parts/informed.h"

static inline void await_next_slice(uint64_t published, uint64_t end)
{
	while (fgi_slice_published() == published && fgi_now_ns(CLOCK_MONOTONIC) < end + FGI_TICK_LATE_NS) {
		fg_thread.spins++;
		fg_pause();
	}
}
