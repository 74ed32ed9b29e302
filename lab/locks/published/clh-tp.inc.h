/* SPDX-License-Identifier: MIT */
/* CLH-TP, the time-published CLH lock (He, Scherer and Scott 2005; section 2.2). The heuristics and their constants:
 * locks/parts/time_published.h. As in clh.inc.h a waiter watches its predecessor's node, and NULL stands for the dummy
 * node.
 *
 *   node->state  the node's thread           what moves the state on
 *   WAITING      waits                       its thread: -> OWNED, once its predecessor is GRANTED;  its successor, if
 *                                            the stamp is old, or its thread, timed out and last in the queue: -> out,
 *                                            FREE;  its thread, timed out: -> LEFT
 *   OWNED        holds the lock              its thread, releasing: -> GRANTED, or -> out if no thread waits
 *   GRANTED      has released the lock       its successor, taking the lock: -> out, and the node is the successor's
 *   LEFT         timed out                   its successor: -> out, FREE
 *   + BUSY       the same; only the thread that set BUSY may change the node's state and its place in the queue
 *
 * Unlike in mcs-tp a release skips no waiter: each waiter takes the nodes before it out of the queue that left or whose
 * threads seem to be off CPU, until it watches one whose thread runs, or the holder's.
 * Taking a node out concerns two nodes, which are neighbours only as long as neither is taken out itself. The thread
 * that does it makes its own node BUSY, then its predecessor's, always in this order, so that no threads wait in a
 * circle. A thread that is preempted between the two, some ten instructions, holds up its neighbours; they yield.
 * Waiting policy: spin, publishing the time; yield while the holder's stamp is old. Degrades as mcs-tp does.
 * I1  A GRANTED node has one successor, which takes the lock by a compare-and-swap of its own node that fails if that
 *     has been taken out. I2  The last node of the queue is never LEFT, so a LEFT node has a successor that takes it
 *     out. I3  FREE is the last write of the thread that takes a node out. I4  Not kept, as in mcs-tp.
 * I5  As clh.inc.h, except in the few instructions between the exchange of the tail and the publication of the
 *     predecessor. A thread that was taken out may be counted by mistake until it notices: it still publishes the old
 *     node.
 * Memory: 16 bytes; a node (64 bytes) for each lock that a thread holds or waits for, or whose wait timed out and
 * whose place has not been taken out yet.
 * Deviations: those of locks/parts/time_published.h, and BUSY, by which also a release excludes a leaving successor. */
#include "locks/parts/time_published.h"

#define BUSY FGI_NODE_BUSY

static inline struct fg_queue_node *pred_of(struct fg_queue_node *node)
{
	return fgi_node_at(fg_load_relaxed(&node_private(node)->pred));
}

/* Only the node's thread calls this, while the node is BUSY: a neighbour that finds it not BUSY may follow `pred`. */
static inline void set_pred(struct fg_queue_node *node, struct fg_queue_node *pred)
{
	fg_store_relaxed(&node_private(node)->pred, fgi_node_word(pred));
	fgi_publish_node(pred); /* GRANTED there is what makes this thread critical */
}

/* acquire: pairs with the release of the thread that took BUSY away. */
static inline bool seize(struct fg_queue_node *node, uint32_t state)
{
	return fg_cas_acquire(&node->state, state, state | BUSY) == state;
}

static inline void release(struct fg_queue_node *node, uint32_t state)
{
	fg_store_release(&node->state, state);
}

/* `got_another` as in clh.inc.h: this acquisition brought its thread a node. */
static inline void own(struct fg_lock *l, struct fg_queue_node *node, bool got_another)
{
	tp_publish(node, fgi_now_ns(CLOCK_MONOTONIC));
	node_private(node)->got_another = got_another;
	tp_set_holder(l, node);
}

/* This thread, whose node is OWNED by now, takes the lock that `pred` grants. */
static inline void take_over(struct fg_lock *l, struct fg_queue_node *node, struct fg_queue_node *pred)
{
	fgi_held_raise();
	fgi_publish_node(NULL);
	fgi_node_put(pred);
	own(l, node, true);
}

static inline bool take_free(struct fg_lock *l, struct fg_queue_node *node, uint64_t tag)
{
	if (fg_load_relaxed(&l->tail) != 0 || fgi_take_cas64(&l->tail, fgi_node_word(node) + tag) != 0)
		return false;
	own(l, node, false);
	return true;
}

/* Takes the predecessor out of the queue, if its state is still `state` and neither node is BUSY. */
static inline void take_out(struct fg_queue_node *node, struct fg_queue_node *pred, uint32_t state)
{
	if (!seize(node, FG_NODE_WAITING))
		return;
	if (seize(pred, state)) {
		set_pred(node, pred_of(pred));
		release(pred, FG_NODE_FREE);
	}
	release(node, FG_NODE_WAITING);
}

/* Leaves the queue at the deadline. True: the thread is out. False: it must try again, or take the lock, which has just
 * been granted. */
static bool leave(struct fg_lock *l, struct fg_queue_node *node)
{
	struct fg_queue_node *pred;
	uint64_t tail;
	uint32_t state;
	bool last;

	if (!seize(node, FG_NODE_WAITING))
		return false;
	pred = pred_of(node);
	state = fgi_queue_state(pred);
	if ((state != FG_NODE_WAITING && state != FG_NODE_OWNED) || !seize(pred, state)) {
		release(node, FG_NODE_WAITING);
		return false;
	}
	tail = fgi_tail_word(node);
	last = fg_cas_acq_rel(&l->tail, tail, fgi_tail_word(pred)) == tail;
	release(pred, state);
	fgi_publish_node(NULL);
	if (last) {
		fgi_node_put(node);
	} else {
		release(node, FG_NODE_LEFT);
		fgi_node_set_aside(node);
	}
	return true;
}

/* Returns 0 with the lock, ETIMEDOUT, or EAGAIN: this thread was taken out and has no node any more.
 * A thread that was taken out may look at a predecessor that is by now in another queue; it acts on none, since that
 * begins with a compare-and-swap of its own node from WAITING. */
static int wait_in_queue(struct fg_lock *l, struct fg_queue_node *node, const struct fgi_deadline *until)
{
	uint64_t since = 0;

	for (;;) {
		struct fg_queue_node *pred = pred_of(node);
		uint32_t state = fgi_queue_state(pred);
		uint64_t now;

		if (fgi_queue_state(node) == FG_NODE_FREE) {
			fgi_publish_node(NULL);
			fgi_node_put(node);
			return EAGAIN;
		}
		if (state == FG_NODE_GRANTED &&
		    fg_cas_acq_rel(&node->state, FG_NODE_WAITING, FG_NODE_OWNED) == FG_NODE_WAITING) {
			take_over(l, node, pred);
			return 0;
		}
		now = tp_spin(l, node, &since);
		if (state == FG_NODE_LEFT || (state == FG_NODE_WAITING && tp_stale(pred, now, TP_STALE_NS)))
			take_out(node, pred, state);
		else if (fgi_past_deadline(until) && leave(l, node))
			return ETIMEDOUT;
	}
}

/* Joins the queue, BUSY until the predecessor is known. */
static int queue(struct fg_lock *l, struct fg_queue_node *node, const struct fgi_deadline *until)
{
	uint64_t tag = tp_mind_fork(l);
	struct fg_queue_node *pred;

	fg_store_relaxed(&node->state, FG_NODE_WAITING | BUSY);
	tp_publish(node, fgi_now_ns(CLOCK_MONOTONIC));
	pred = fgi_tail_node(fg_xchg_acq_rel(&l->tail, fgi_node_word(node) + tag));
	if (!pred) {
		fgi_held_raise();
		own(l, node, false);
		release(node, FG_NODE_OWNED);
		return 0;
	}
	set_pred(node, pred);
	release(node, FG_NODE_WAITING);
	return wait_in_queue(l, node, until);
}

static inline bool fgi_trylock(struct fg_lock *l)
{
	uint64_t tag = tp_mind_fork(l);
	struct fg_queue_node *node;

	if (fg_load_relaxed(&l->tail) != 0)
		return false;
	node = fgi_node_need(&l->tail);
	fg_store_relaxed(&node->state, FG_NODE_OWNED);
	if (take_free(l, node, tag))
		return true;
	fgi_node_put(node);
	return false;
}

__attribute__((noinline)) static int acquire(struct fg_lock *l, const struct fgi_deadline *until)
{
	int result;

	do {
		struct fg_queue_node *node = until->time ? fgi_node_get(&l->tail) : fgi_node_need(&l->tail);

		result = node ? queue(l, node, until) : tp_poll(l, until);
	} while (result == EAGAIN);
	return result;
}

static inline void fgi_lock(struct fg_lock *l)
{
	if (!fgi_trylock(l))
		acquire(l, &FGI_NEVER);
}

static inline int fgi_timedlock(struct fg_lock *l, struct fgi_deadline until)
{
	return fgi_trylock(l) ? 0 : acquire(l, &until);
}

/* A neighbour is busy with the owner's node: waits until it is not, and makes the node BUSY. */
__attribute__((noinline, cold)) static void await_neighbour(struct fg_queue_node *node)
{
	unsigned int spin = 0;

	do {
		if (++spin % FGI_SPINS_PER_LOOK)
			fgi_spin_once();
		else
			fgi_spin_yield();
	} while (!seize(node, FG_NODE_OWNED));
}

/* BUSY comes first: from then on no successor may leave, so a queue that is not empty has one that takes the lock. */
static inline void fgi_unlock(struct fg_lock *l)
{
	uint64_t tag = tp_mind_fork(l);
	struct fg_queue_node *node = tp_holder(l);
	uint64_t tail = fgi_node_word(node) + tag;

	if (fg_unlikely(!seize(node, FG_NODE_OWNED)))
		await_neighbour(node);
	if (fgi_drop_cas64(&l->tail, tail, 0) != tail)
		fgi_drop_store32(&node->state, FG_NODE_GRANTED);
	else if (node_private(node)->got_another)
		fgi_node_put_in_pool(node);
	else
		fgi_node_put(node);
}
