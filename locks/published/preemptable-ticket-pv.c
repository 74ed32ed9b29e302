/* SPDX-License-Identifier: MIT */
/* The paravirtual preemptable ticket lock (Ouyang and Lange, VEE'13, section 5.2): as locks/published/preemptable-ticket.c, but
 * who spins for too long halts. Halting is here a futex, and the wake-up hypercall its wake.
 *
 *   lock    meaning                        taken by      released by
 *   FREE    nobody holds it
 *   HELD    held, nobody sleeps            CAS -> HELD   XCHG -> FREE
 *   HALTED  held, somebody may sleep                     XCHG -> FREE, wake all
 *
 * Waiting policy: wait for one's place or n * tau, then spin on the lock word for HALT_TURNS, then sleep until the next
 * release. That one wakes every sleeper, for any of them may be the one that the tickets would let in next, and those
 * that have been overtaken (n < 0) are nobody's successor.
 * I1  by the CAS on `lock`. (The paper's exchange would wipe out HALTED.) I2  a waiter sleeps only while the word is
 *     HALTED; only a release ends that, and it wakes them all. I4  as the spinning form. I5  exactly: windows.
 * Memory: 16 bytes; nothing per thread. A timed wait that ends hands its ticket back as granted. */
#include <errno.h>
#include <limits.h>
#include <time.h>

#include "locks/parts/preemptable-ticket.h"
#include "runtime/futex.h"
#include "runtime/spin_budget.h"

enum { FREE = 0, HELD = 1, HALTED = 2 };

#define HALT_TURNS 2048u /* section 5.2 */

static inline bool spin(struct fg_lock *l)
{
	for (unsigned int turn = 0; turn < HALT_TURNS; turn++) {
		if (fg_load_relaxed(&l->lock) == FREE && fgi_take_cas32(&l->lock, HELD) == FREE)
			return true;
		fg_thread.spins++;
		fg_pause();
	}
	return false;
}

/* Sleeps until the next release. */
static inline int halt(struct fg_lock *l, const struct fgi_spin_budget *p)
{
	uint32_t found = fg_cas_relaxed(&l->lock, HELD, HALTED);

	return found == FREE ? 0 : fgi_park(&l->lock, HALTED, p);
}

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	struct fgi_spin_budget p = FGI_SPIN_BUDGET(clock, abs);

	draw_and_wait(l);
	while (!spin(l)) {
		if (halt(l, &p) != ETIMEDOUT)
			continue;
		grant_one(l);
		return ETIMEDOUT;
	}
	return 0;
}

static inline void fgi_lock(struct fg_lock *l)
{
	fgi_timedlock(l, CLOCK_MONOTONIC, NULL);
}

static inline void fgi_unlock(struct fg_lock *l)
{
	check_fork(l);
	grant_one(l);
	if (fg_unlikely(fgi_drop_xchg32(&l->lock, FREE) == HALTED))
		fgi_futex_wake(&l->lock, INT_MAX);
}
