/* SPDX-License-Identifier: MIT */
/* The paravirtual preemptable ticket lock (Ouyang and Lange, VEE'13, section 5.2): as
 * locks/published/preemptable-ticket.inc.h, but a waiter that has spun for long halts. Here halting is a futex wait,
 * and the wake-up hypercall a futex wake.
 *
 *   lock    meaning                        taken by                   released by
 *   FREE    free
 *   HELD    held, no thread sleeps         compare-and-swap -> HELD   exchange -> FREE
 *   HALTED  held, threads may sleep                                   exchange -> FREE, wake all
 *
 * Waiting policy: wait for one's position or n * tau, then spin on the lock word for HALT_SPINS, then sleep until the
 * next release. A release wakes every sleeper: any of them may be the one that the tickets would let in next, and a
 * thread that has been overtaken (n < 0) is no thread's successor.
 * I1  By the compare-and-swap on `lock`. I2  A waiter sleeps only while the word is HALTED; only a release ends that,
 *     and it wakes all sleepers. I4  As the spinning form. I5  Exactly: taken and released inside windows.
 * Memory: 16 bytes; nothing per thread. A timed wait that ends hands its ticket back as granted.
 * Deviations: the paper takes the word by an exchange, which here would wipe out HALTED. HALT_SPINS take about 1 us on
 * the paper's machine (section 3) and 30 to 100 us here, by how long the CPU's PAUSE takes: a waiter halts later. */
#include <limits.h>

#include "locks/parts/preemptable-ticket.h"

enum { FREE = 0, HELD = 1, HALTED = 2 };

#define HALT_SPINS 2048u /* section 5.2 */

static inline bool spin(struct fg_lock *l, struct fgi_spin_budget *p)
{
	for (unsigned int spin = 0; spin < HALT_SPINS; spin++) {
		if (fg_load_relaxed(&l->lock) == FREE && fgi_take_cas32(&l->lock, HELD) == FREE)
			return true;
		if (p->deadline && fgi_deadline_reached(p))
			return false;
		fgi_spin_once();
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

	draw_and_wait(l, &p);
	while (!spin(l, &p)) {
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
