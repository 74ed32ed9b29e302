/* SPDX-License-Identifier: MIT */
/* FlexGuard as published: section 3.2, Listing 2. The line numbers are the listing's.
 *
 * A single-variable lock, which alone decides ownership, and an MCS queue of the threads that busy-wait for it, of
 * which only the head looks at the variable. The mode is the monitor's counter: at 0 waiters spin, otherwise they leave
 * the queue and block.
 *
 *   val          meaning                                 taken by                     released by
 *   UNLOCKED     free                                    compare-and-swap -> LOCKED
 *   LOCKED       held, no thread is blocked                                           exchange -> UNLOCKED
 *   BLOCKED      held, a thread may be blocked on val    exchange -> BLOCKED          exchange -> UNLOCKED, wake one
 *
 * I1  Ownership is decided by val alone: the queue and the mode only order and park the waiters.
 * I2  A waiter sleeps only while val is BLOCKED. Only an unlock ends that state, and it wakes a sleeper. A thread that
 *     was woken makes val BLOCKED again before it sleeps, or holds the lock with it, so the next sleeper is woken, too.
 * I4  Bypass: in spinning mode only by arrivals on the fast path (the queue is in order of arrival); in blocking mode
 *     the futex wakes first come, first served. Neither bounds a stream of arrivals on the fast path.
 * I5  val is taken and released inside windows; `held` is lowered before the release (line 22).
 * Memory: 16 bytes; one node (64 bytes) a thread, and up to 8 more in queues that it left.
 *
 * Deviations from the listing:
 * - A waiter leaves the queue safely (locks/parts/mcs_queue.h).
 * - A waiter that is in spinning mode and outside the queue joins it (lines 49-51 would spin on val beside the head).
 * - A waiter that left the queue, and comes back before the head has skipped its node, has its old place again (line 41
 *   puts it at the tail).
 * - A waiter in the queue that is not its head does not try val again after line 47, in busy-waiting mode (in lines
 *   49-51 each thread of phase 2 does).
 * - By default the counter is of the preempted critical sections of one user's processes. Section 3.2.2 argues for one
 *   counter for the machine, since waiters of one process can preempt the critical sections of another.
 * - The head takes HEAD_PAUSES PAUSEs between two tries (line 51 has one).
 * - A waiter blocks after FGI_SPIN_SLICE_NS although the monitor lives and counts nothing, and after
 *   FGI_SPIN_UNMONITORED_NS without a monitor (runtime/spin_budget.h): no lock may depend on the monitor for progress.
 * - A waiter blocks if no queue node is to be had.
 * lab/variants/flexguard-sosp25-listing.inc.h has the listing's values: one PAUSE and no bound.
 * flexguard-sosp25-counter.inc.h beside it has a counter for each lock, which section 3.2.2 reports to perform
 * worse. */
#include "locks/parts/mcs_queue.h"

struct fg_lock {
	uint32_t val;
	uint32_t unused;
	uint64_t queue; /* the MCS tail */
};

enum { UNLOCKED = 0, LOCKED = 1, BLOCKED = 2 /* LOCKED_WITH_BLOCKED_WAITERS */ };

/* The head's PAUSEs between two tries. Each try takes val's cache line away from its owner, which has to fetch it back.
 * Measured with 8 threads on two contexts 220 ns apart: 0.80 of futex's throughput with one PAUSE, 1.16 with 16
 * (docs/results/published-lock.md). */
#ifndef HEAD_PAUSES
#define HEAD_PAUSES 16u
#endif

#ifndef SPIN_IS_BOUNDED
#define SPIN_IS_BOUNDED true
#endif

/* A waiter has busy-waited for `spins` more. Whether the mode is blocking. */
static inline bool must_block(struct fgi_spin_budget *p, uint32_t spins)
{
	if (SPIN_IS_BOUNDED)
		return fgi_must_park_after(p, spins);
	return p->out || fgi_preempted_cs() != 0 || (p->deadline && fgi_deadline_reached(p));
}

/* Phase 1, lines 36-45: waits in the queue until this thread is its head, or until the mode is blocking. */
static inline struct fg_queue_node *phase1(struct fg_lock *l, struct fgi_spin_budget *p)
{
	struct fg_queue_node *node;

	if (must_block(p, 1))
		return NULL;
	node = fgi_queue_join(&l->queue);
	if (!node)
		p->out = true; /* no place in which to spin: block */
	else
		while (fgi_queue_state(node) == FG_NODE_WAITING && !must_block(p, 1))
			fgi_spin_once();
	return node;
}

/* Blocking mode, lines 52-61: sleeps until val is released, and tries it. Returns what val was: UNLOCKED means that
 * this thread has the lock. */
static inline uint32_t block(struct fg_lock *l, uint32_t state, struct fgi_spin_budget *p, int *woken)
{
	if (state != BLOCKED)
		state = fgi_take_xchg32(&l->val, BLOCKED);
	if (state != UNLOCKED) {
		*woken = fgi_park(&l->val, BLOCKED, p);
		state = fgi_take_xchg32(&l->val, BLOCKED);
		fgi_spin_budget_renew(p);
	}
	return state;
}

/* Phase 2, lines 47-65. Returns 0 with the lock, ETIMEDOUT at the deadline, EAGAIN: go through the queue (line 62). */
static inline int phase2(struct fg_lock *l, struct fg_queue_node *node, struct fgi_spin_budget *p)
{
	uint32_t state = fgi_take_cas32(&l->val, LOCKED);

	while (state != UNLOCKED) {
		int woken = 0;

		if (!must_block(p, HEAD_PAUSES)) { /* busy-waiting mode */
			if (!node)
				return EAGAIN;
			fgi_spin_times(HEAD_PAUSES);
			if (fgi_queue_state(node) != FG_NODE_WAITING) /* only the head looks at val */
				state = fgi_take_cas32(&l->val, LOCKED);
			continue;
		}
		if (node)
			fgi_queue_leave(&l->queue, node);
		node = NULL;
		state = block(l, state, p, &woken);
		if (state != UNLOCKED && woken == ETIMEDOUT)
			return ETIMEDOUT;
	}
	if (node)
		fgi_queue_leave(&l->queue, node);
	return 0;
}

__attribute__((noinline)) static int slow_path(struct fg_lock *l, struct fgi_spin_budget *p) /* lines 34-66 */
{
	int result;

	do {
		struct fg_queue_node *node = phase1(l, p);

		result = phase2(l, node, p);
	} while (result == EAGAIN);
	return result;
}

static inline bool fgi_trylock(struct fg_lock *l)
{
	return fg_load_relaxed(&l->val) == UNLOCKED && fgi_take_cas32(&l->val, LOCKED) == UNLOCKED;
}

static inline void fgi_lock(struct fg_lock *l) /* lines 27-33 */
{
	if (fg_likely(fgi_trylock(l)))
		return;
	slow_path(l, &FGI_NO_DEADLINE);
}

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	if (fgi_trylock(l))
		return 0;
	return slow_path(l, &FGI_SPIN_BUDGET(clock, abs));
}

static inline void fgi_unlock(struct fg_lock *l) /* lines 21-25 */
{
	if (fg_unlikely(fgi_drop_xchg32(&l->val, UNLOCKED) == BLOCKED))
		fgi_futex_wake(&l->val, 1);
}
