/* SPDX-License-Identifier: GPL-2.0-only */
/* The informed spinlock, HVM form (I-Spinlock, EuroSys'17, section 4). Its words and its tickets are in
 * tickets-informed.h.
 *
 * Waiting policy: with a ticket, spin in order. Without one, because the slice is too short, spin until the next slice
 * (Fig. 5, lines 29 to 33), or until the end has passed without a switch: then no thread of the host wanted the CPU. */
#include "tickets-informed.h"

static __always_inline void await_next_slice(struct waiting *w, u64 slice, u64 end)
{
	while (flexguard_slice() == slice && flexguard_now() < end + FLEXGUARD_TICK_LATE_NS)
		spin_once(w);
}
