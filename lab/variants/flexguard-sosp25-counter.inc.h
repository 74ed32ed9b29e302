/* SPDX-License-Identifier: MIT */
/* FlexGuard with a counter of preempted critical sections for each lock (section 3.2.2, which reports it to perform
 * worse than one for the machine; the poster's lock has its state in itself).
 *
 *   word   locks/parts/owner_word.h: 0 free, or the owner's tid
 *   next   the tid of the queue's head, the next waiter; 0: none, or it has not said so yet
 *   queue  the MCS tail of the threads that busy-wait (locks/parts/mcs_queue.h)
 *
 * Two threads are critical for a lock, its owner and its next waiter. The lock names both, and the monitor publishes
 * which named threads are preempted. So a waiter counts them itself, and the kernel need not write into the lock, as it
 * does in the poster. With FGB_COUNTER_OF_LOCK 0 the same lock asks the monitor's counter, as a control.
 *
 * Waiting policy: as flexguard-sosp25. While none is preempted, spin in the queue, of which only the head looks at the
 * word; otherwise, and after the bound of runtime/spin_budget.h, leave the queue and sleep on the word.
 * I1  The word alone. I2  locks/parts/owner_word.h; a thread that has slept takes the word with SLEEPERS set, also by
 *     way of the queue. I3  locks/parts/mcs_queue.h. I4  The queue is in order of arrival, and arrivals may take the
 *     free word. I5  Exactly: the owner by intent, the head by its node's state. The counter of a lock may miss a head
 *     that is preempted before it has said that it is, and threads that share a place in `off_cpu`.
 * Memory: 16 bytes; one node (64 bytes) a thread, and up to 8 more in queues that it left. */
#include "locks/parts/mcs_queue.h"
#include "locks/parts/owner_word.h"

struct fg_lock {
	uint32_t word;
	uint32_t next;
	uint64_t queue;
};

#define PAUSES 16u /* as HEAD_PAUSES of flexguard-sosp25; in the queue, too, since all look at the owner's line */

static inline bool critical_preempted(const struct fg_lock *l)
{
	if (!FGB_COUNTER_OF_LOCK)
		return fgi_preempted_cs();
	return fgi_named_preempted(fg_load_relaxed(&l->word) & FG_OWNER_MASK) ||
	       fgi_named_preempted(fg_load_relaxed(&l->next));
}

static inline bool must_sleep(const struct fg_lock *l, struct fgi_spin_budget *p, uint32_t spins)
{
	return critical_preempted(l) || fgi_bound_reached_after(p, spins);
}

static void leave(struct fg_lock *l, struct fg_queue_node *node)
{
	if (fg_load_relaxed(&l->next) == fgi_self())
		fg_store_relaxed(&l->next, 0);
	fgi_queue_leave(&l->queue, node);
}

/* Returns true with the lock; false: sleep. */
static bool wait_awake(struct fg_lock *l, struct fgi_spin_budget *p, uint32_t flags)
{
	struct fg_queue_node *node;
	bool mine = false;

	if (must_sleep(l, p, 1))
		return false;
	node = fgi_queue_join(&l->queue);
	if (!node)
		return false;
	while (!must_sleep(l, p, PAUSES)) {
		if (fgi_queue_state(node) != FG_NODE_WAITING) {
			if (fg_load_relaxed(&l->next) != fgi_self())
				fg_store_relaxed(&l->next, fgi_self());
			mine = fgi_word_try(&l->word, flags);
			if (mine)
				break;
		}
		fgi_spin_times(PAUSES);
	}
	leave(l, node);
	return mine;
}

__attribute__((noinline)) static int slow_path(struct fg_lock *l, struct fgi_spin_budget *p)
{
	uint32_t flags = 0;

	while (!wait_awake(l, p, flags)) {
		int woken = fgi_word_park(&l->word, p);

		flags = FGI_WORD_SLEEPERS;
		fgi_spin_budget_renew(p);
		if (fgi_word_try(&l->word, flags))
			break;
		if (woken == ETIMEDOUT)
			return ETIMEDOUT;
	}
	return 0;
}

static inline bool fgi_trylock(struct fg_lock *l)
{
	return fgi_word_try(&l->word, 0);
}

static inline void fgi_lock(struct fg_lock *l)
{
	struct fgi_spin_budget p = FGI_NO_DEADLINE;

	if (fg_unlikely(!fgi_trylock(l)))
		slow_path(l, &p);
}

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	struct fgi_spin_budget p = FGI_SPIN_BUDGET(clock, abs);

	return fg_likely(fgi_trylock(l)) ? 0 : slow_path(l, &p);
}

static inline void fgi_unlock(struct fg_lock *l)
{
	fgi_word_drop(&l->word);
}
