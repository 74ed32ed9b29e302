/* SPDX-License-Identifier: MIT */
/* The preemptable ticket spinlock (Ouyang and Lange, VEE'13, section 4, Fig. 3 and 4), brought from virtual CPUs to
 * threads. Its words, its tickets and its deviations: locks/parts/preemptable-ticket.h.
 *
 *   lock   0 free, 1 held
 *
 * Waiting policy: spin, always; as in a ticket lock while all threads run, as in a test-and-set lock among the waiters
 * whose proportional timeout n * tau has passed. So a preempted waiter costs the others tau, where in a ticket lock it
 * costs a time slice; a preempted holder costs the same in both.
 * I1  By the exchange on `lock`; the tickets decide nothing. I4  In order of tickets while no waiter times out; no
 *     order among those that have (section 4.3). I5  Exactly: taken and released inside windows.
 * Memory: 16 bytes; nothing per thread. A timed wait that ends hands its ticket back as granted. */
#include "locks/parts/preemptable-ticket.h"

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	struct fgi_spin_budget p = FGI_SPIN_BUDGET(clock, abs);

	draw_and_wait(l, &p);
	while (fgi_take_xchg32(&l->lock, 1) != 0) { /* lines 29 to 35 */
		if (abs && fgi_deadline_reached(&p)) {
			grant_one(l);
			return ETIMEDOUT;
		}
		fgi_spin_once();
	}
	return 0;
}

static inline void fgi_lock(struct fg_lock *l) /* lines 2 to 36 */
{
	fgi_timedlock(l, CLOCK_MONOTONIC, NULL);
}

static inline void fgi_unlock(struct fg_lock *l) /* lines 38 to 41 */
{
	check_fork(l);
	grant_one(l);
	fgi_drop_xchg32(&l->lock, 0); /* line 40 exchanges */
}
