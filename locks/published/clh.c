/* SPDX-License-Identifier: MIT */
/* The CLH queue lock (Craig 1993; Landin and Hagersten 1994; section 2.1.2): each waiter spins on its predecessor's
 * node and keeps that node in exchange for its own.
 *
 *   tail    meaning                                             node->state   of a node in the queue
 *   NULL    free                                                WAITING       its thread waits
 *   node    held; its thread holds the lock or waits last       OWNED         its thread holds the lock
 *                                                               GRANTED       its thread has released the lock to
 *                                                                             the one that spins on the node
 *
 * The original lock begins with a dummy node and leaves one behind at every release. Here the dummy is NULL, and a
 * release without a successor takes the node out again with a CAS, as MCS does: so zeroed memory is an unlocked lock,
 * an unlocked lock owns no node, and it needs no destructor.
 * Waiting policy: spin, always; strictly first come, first served (I4), so it collapses as soon as one waiter in the
 * queue is off CPU. A waiter cannot leave, so a timed wait polls without queueing.
 * I1  the tail's exchange and the predecessor's grant: one owner. I3  a node is written to by its thread while it is in
 *     the queue, and belongs to the successor from the moment that this one has seen GRANTED.
 * I5  exact from the moment that a waiter has published its predecessor's node, and when the lock is found free or is
 *     released. Missed: a preemption in the few instructions between the exchange of the tail and that publication
 *     (the monitor then takes it for a thread that merely waits).
 * Memory: 16 bytes; a node (64 bytes) for each lock that a thread holds or waits for. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "locks/parts/mcs_queue.h"
#include "runtime/spin_budget.h"

struct fg_lock {
	uint64_t tail;
	struct fg_queue_node *holder;
};

/* An acquisition behind another thread brings this thread that thread's node, beside its own. A release without a
 * successor gives such a node to the pool: otherwise the threads that queue first would run out of nodes. */
struct clh_node {
	uint32_t got_another;
} FGI_IN_NODE;
FGI_NODE_PRIVATE(struct clh_node);

static inline void own(struct fg_lock *l, struct fg_queue_node *node, bool got_another)
{
	fg_store_relaxed(&node->state, FG_NODE_OWNED);
	node_private(node)->got_another = got_another;
	l->holder = node;
}

static inline bool take_free(struct fg_lock *l, struct fg_queue_node *node)
{
	if (fg_load_relaxed(&l->tail) != 0 || fgi_take_cas64(&l->tail, fgi_node_word(node)) != 0)
		return false;
	own(l, node, false);
	return true;
}

__attribute__((noinline)) static void queue_up(struct fg_lock *l, struct fg_queue_node *node)
{
	uint64_t found = fg_xchg_acq_rel(&l->tail, fgi_node_word(node));
	struct fg_queue_node *pred = (struct fg_queue_node *)(uintptr_t)found;

	fgi_publish_node(pred);
	while (pred && fgi_queue_state(pred) != FG_NODE_GRANTED) {
		fg_thread.spins++;
		fg_pause();
	}
	fgi_held_raise();
	fgi_publish_node(NULL);
	if (pred)
		fgi_node_put(pred);
	own(l, node, pred != NULL);
}

static inline void fgi_lock(struct fg_lock *l)
{
	struct fg_queue_node *node = fgi_node_need(&l->tail);

	if (!take_free(l, node))
		queue_up(l, node);
}

static inline bool fgi_trylock(struct fg_lock *l)
{
	struct fg_queue_node *node;

	if (fg_load_relaxed(&l->tail) != 0)
		return false;
	node = fgi_node_need(&l->tail);
	if (take_free(l, node))
		return true;
	fgi_node_put(node);
	return false;
}

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	struct fgi_spin_budget p = FGI_SPIN_BUDGET(clock, abs);

	while (!fgi_trylock(l)) {
		if (fgi_deadline_reached(&p))
			return ETIMEDOUT;
		fg_thread.spins++;
		fg_pause();
	}
	return 0;
}

static inline void fgi_unlock(struct fg_lock *l)
{
	struct fg_queue_node *node = l->holder;

	if (fgi_drop_cas64(&l->tail, fgi_node_word(node), 0) != fgi_node_word(node))
		fgi_drop_store32(&node->state, FG_NODE_GRANTED);
	else if (node_private(node)->got_another)
		fgi_node_surrender(node);
	else
		fgi_node_put(node);
}
