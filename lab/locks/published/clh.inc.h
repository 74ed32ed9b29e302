/* SPDX-License-Identifier: MIT */
/* The CLH queue lock (Craig 1993; Landin and Hagersten 1994; section 2.1.2): each waiter spins on its predecessor's
 * node, and keeps that node in exchange for its own.
 *
 *   tail    meaning                                             node->state   of a node in the queue
 *   NULL    free                                                WAITING       its thread waits
 *   node    held; the node's thread holds the lock              OWNED         its thread holds the lock
 *           or waits last                                       GRANTED       its thread has released the lock to
 *                                                                             the one that spins on the node
 *
 * Waiting policy: spin, always; strictly first come, first served (I4), so it collapses as soon as one waiter in the
 * queue is off CPU. A waiter cannot leave, so a timed wait polls without queueing.
 * I1  By the exchange of the tail and the predecessor's grant there is one owner. I3  A node is written to by its
 *     thread while it is in the queue, and belongs to the successor from the moment that the successor has seen
 *     GRANTED.
 * I5  Exactly once a waiter has published its predecessor's node, and when the lock is found free or is released. The
 *     monitor takes a thread that is preempted in the few instructions between the exchange of the tail and that
 *     publication for a mere waiter.
 * Memory: 16 bytes; a node (64 bytes) for each lock that a thread holds or waits for.
 * Deviation: the original lock begins with a dummy node and leaves one behind at every release. Here the dummy is NULL,
 * and a release without a successor takes the node out again with a compare-and-swap, as MCS does. So zeroed memory is
 * an unlocked lock, an unlocked lock owns no node, and it needs no destructor. */
#include "locks/parts/mcs_queue.h"

struct fg_lock {
	uint64_t tail;
	uint64_t holder; /* the address of a node */
};

/* The first thing that each operation does (locks/parts/mcs_queue.h, Forks). Returns the tag of the tail. */
static inline uint64_t mind_fork(struct fg_lock *l)
{
	return fgi_tail_mind_fork(&l->tail, &l->holder);
}

/* An acquisition behind another thread brings this thread that thread's node, beside its own. A release without a
 * successor gives such a node to the pool: otherwise threads that often come first would run out of nodes. */
struct clh_node {
	uint32_t got_another;
} FGI_IN_NODE;
FGI_NODE_PRIVATE(struct clh_node);

static inline void own(struct fg_lock *l, struct fg_queue_node *node, bool got_another)
{
	fg_store_relaxed(&node->state, FG_NODE_OWNED);
	node_private(node)->got_another = got_another;
	fg_store_relaxed(&l->holder, fgi_node_word(node));
}

static inline bool take_free(struct fg_lock *l, struct fg_queue_node *node, uint64_t tag)
{
	if (fg_load_relaxed(&l->tail) != 0 || fgi_take_cas64(&l->tail, fgi_node_word(node) + tag) != 0)
		return false;
	own(l, node, false);
	return true;
}

__attribute__((noinline)) static void wait_in_queue(struct fg_lock *l, struct fg_queue_node *node, uint64_t tag)
{
	struct fg_queue_node *pred = fgi_tail_node(fg_xchg_acq_rel(&l->tail, fgi_node_word(node) + tag));

	fgi_publish_node(pred);
	while (pred && fgi_queue_state(pred) != FG_NODE_GRANTED)
		fgi_spin_once();
	fgi_held_raise();
	fgi_publish_node(NULL);
	if (pred)
		fgi_node_put(pred);
	own(l, node, pred != NULL);
}

static inline void fgi_lock(struct fg_lock *l)
{
	uint64_t tag = mind_fork(l);
	struct fg_queue_node *node = fgi_node_need(&l->tail);

	if (!take_free(l, node, tag))
		wait_in_queue(l, node, tag);
}

static inline bool fgi_trylock(struct fg_lock *l)
{
	uint64_t tag = mind_fork(l);
	struct fg_queue_node *node;

	if (fg_load_relaxed(&l->tail) != 0)
		return false;
	node = fgi_node_need(&l->tail);
	if (take_free(l, node, tag))
		return true;
	fgi_node_put(node);
	return false;
}

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	return fgi_poll(l, clock, abs);
}

static inline void fgi_unlock(struct fg_lock *l)
{
	uint64_t tag = mind_fork(l), tail = fg_load_relaxed(&l->holder) + tag;
	struct fg_queue_node *node = fgi_tail_node(tail);

	if (fgi_drop_cas64(&l->tail, tail, 0) != tail)
		fgi_drop_store32(&node->state, FG_NODE_GRANTED);
	else if (node_private(node)->got_another)
		fgi_node_put_in_pool(node);
	else
		fgi_node_put(node);
}
