/* SPDX-License-Identifier: MIT */
/* Oticket, which EuroSys'17 compares with (section 3.2, reference 7; "OT"): the paravirtual ticket lock
 * (locks/published/ticket-pv.inc.h), in which the waiters whose tickets come next spin for longer, so that fewer
 * hand-overs need a wake-up. Its words and its invariants: locks/parts/halting_ticket.h.
 *
 * Waiting policy: the next NEAR waiters spin for NEAR_SPINS, the others for HALT_SPINS, then they sleep until their
 * turn; first come, first served.
 * Memory: 12 bytes; nothing per thread. A timed wait polls without drawing a ticket.
 * Deviations: after EuroSys'17's account, which has no numbers: NEAR and NEAR_SPINS are ours. A waiter that sleeps is
 * woken when its turn has come, not before. HALT_SPINS take about 1 us on VEE'13's machine (section 3) and 30 to 100 us
 * here, by how long the CPU's PAUSE takes: a waiter halts later. */
#define HALT_SPINS 2048u              /* VEE'13, section 5.2 */
#define NEAR 2u                       /* who comes next, and who then does */
#define NEAR_SPINS (HALT_SPINS * 16u) /* about a millisecond: a time slice of a preempted predecessor is longer */
#define FGI_ACTIVE_SPINS(ahead) ((ahead) <= NEAR ? NEAR_SPINS : HALT_SPINS)
#include "locks/parts/halting_ticket.h"
