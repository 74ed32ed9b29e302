/* SPDX-License-Identifier: GPL-2.0-only */
/* The informed spinlock, PV form (I-Spinlock, EuroSys'17, section 4). Its words and its tickets are in
 * tickets-informed.h.
 *
 * Waiting policy: with a ticket, spin in order. Without one, because the slice is too short, yield the CPU to the
 * host's other threads (Fig. 5, line 35), and draw a ticket when it comes back. */
#include "tickets-informed.h"

static __always_inline void await_next_slice(struct waiting *w, u64 slice, u64 end)
{
	COUNT(yields, 1);
	flexguard_yield();
}
