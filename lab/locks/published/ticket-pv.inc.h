/* SPDX-License-Identifier: MIT */
/* The paravirtual ticket lock, which VEE'13 (section 5.2, "pv-lock") and EuroSys'17 (section 3.2, "PV TS") compare
 * with: a ticket lock whose waiters halt after they have spun for long, and whose release wakes the next of them. Its
 * words and its invariants: locks/parts/halting_ticket.h.
 *
 * Waiting policy: spin for HALT_SPINS, then sleep until one's turn; first come, first served. So a waiter burns little
 * CPU, but the next waiter must be woken, or be on a CPU, before anyone gets on.
 * Memory: 12 bytes; nothing per thread. A timed wait polls without drawing a ticket.
 * Deviations: a waiter that was woken in vain spins again before it halts. HALT_SPINS take about 1 us on VEE'13's
 * machine (section 3) and 30 to 100 us here, by how long the CPU's PAUSE takes: a waiter halts later. */
#define HALT_SPINS 2048u /* VEE'13, section 5.2: 2048 iterations by default */
#define FGI_ACTIVE_SPINS(ahead) HALT_SPINS
#include "locks/parts/halting_ticket.h"
