/* SPDX-License-Identifier: MIT */
/* MCS-TP, the time-published MCS lock (He, Scherer and Scott 2005; section 2.2). The heuristics and their constants:
 * locks/parts/time_published.h.
 *
 *   tail    meaning             node->state  the node's thread            what moves the state on
 *   NULL    free                WAITING      waits                        a release: -> GRANTED, or -> PASSED if its
 *   node    held; the tail's                                              stamp is old;  itself, timed out: -> LEFT
 *           thread holds the    GRANTED      has been given the lock      itself: -> OWNED
 *           lock or waits last  OWNED        holds it, and has said so    itself, releasing: -> FREE
 *                               LEFT         timed out                    a release: -> PASSED;  itself, waiting again
 *                                                                         in its old place: -> WAITING
 *                               PASSED       is being skipped             the release: -> FREE, its last write to it
 *                               FREE         was skipped: queues anew
 *
 * Waiting policy: spin on the own node, publishing the time; yield while the holder's stamp is old. A release walks
 * down the queue and gives the lock to the first waiter that seems to run. If none does, the lock becomes free and the
 * waiters queue anew. So a preempted waiter delays no other. But the walk is as long as the queue, a waiter that yields
 * looks like one that was preempted, and all of them go on running: the lock degrades when there are many more threads
 * than hardware contexts (Fig. 1), later than mcs does.
 * I1  By the exchange of the tail and the release's grant, a compare-and-swap from WAITING that excludes leaving, there
 *     is one owner. I3  Nodes are type-stable; no thread writes to another's node once it is FREE. I4  Not kept: a
 *     waiter may be skipped again and again. I5  Exactly: windows around the enqueueing, the grants and the last
 *     compare-and-swap; between them the node's state.
 * Memory: 16 bytes; a node (64 bytes) for each lock that a thread holds or waits for, or whose wait timed out and that
 * has not been released since.
 * Deviations from LiTL's version: a release reads the clock once for its whole walk, and the walk has no limit (LiTL:
 * 1,000 nodes); a waiter that was skipped queues again at once (LiTL's yields first); a waiter that times out keeps its
 * place until a release skips it; locks/parts/time_published.h has another. */
#include "locks/parts/time_published.h"

static inline void own(struct fg_lock *l, struct fg_queue_node *node)
{
	tp_publish(node, fgi_now_ns(CLOCK_MONOTONIC));
	fg_store_relaxed(&node->state, FG_NODE_OWNED);
	tp_set_holder(l, node);
}

/* Queues, or takes up again the place that this thread left when it timed out. The stamp comes first: a node in the
 * queue with the stamp of its former use would be skipped. NULL: no node is to be had now for a waiter that may time
 * out. */
static struct fg_queue_node *join(struct fg_lock *l, bool may_leave)
{
	struct fg_queue_node *node = fgi_node_left_at(&l->tail);
	uint64_t tag;

	if (fg_unlikely(node != NULL)) {
		tp_publish(node, fgi_now_ns(CLOCK_MONOTONIC));
		fgi_publish_node(node); /* before it can be granted */
		if (fg_cas_acq_rel(&node->state, FG_NODE_LEFT, FG_NODE_WAITING) == FG_NODE_LEFT) {
			fgi_node_take_back(node);
			return node;
		}
	}
	tag = tp_mind_fork(l);
	node = may_leave ? fgi_node_get(&l->tail) : fgi_node_need(&l->tail);
	fgi_publish_node(node);
	if (node) {
		tp_publish(node, fgi_now_ns(CLOCK_MONOTONIC));
		fgi_enqueue(&l->tail, node, tag);
	}
	return node;
}

/* Returns 0 with the lock, ETIMEDOUT, or EAGAIN: this thread was skipped and has no node any more. */
static int wait_in_queue(struct fg_lock *l, struct fg_queue_node *node, const struct fgi_spin_budget *p)
{
	uint64_t since = 0;
	uint32_t state;

	while ((state = fgi_queue_state(node)) != FG_NODE_GRANTED) {
		if (state == FG_NODE_FREE) {
			fgi_publish_node(NULL);
			fgi_node_put(node);
			return EAGAIN;
		}
		if (fgi_past_deadline(p) &&
		    fg_cas_acq_rel(&node->state, FG_NODE_WAITING, FG_NODE_LEFT) == FG_NODE_WAITING) {
			fgi_publish_node(NULL);
			fgi_node_set_aside(node);
			return ETIMEDOUT;
		}
		tp_spin(l, node, &since);
	}
	fgi_held_raise();
	fgi_publish_node(NULL);
	own(l, node);
	return 0;
}

static inline bool fgi_trylock(struct fg_lock *l)
{
	uint64_t tag = tp_mind_fork(l);
	struct fg_queue_node *node;

	if (fg_load_relaxed(&l->tail) != 0)
		return false;
	node = fgi_node_need(&l->tail);
	tp_publish(node, fgi_now_ns(CLOCK_MONOTONIC));
	if (fgi_take_cas64(&l->tail, fgi_node_word(node) + tag) != 0) {
		fgi_node_put(node);
		return false;
	}
	own(l, node);
	return true;
}

__attribute__((noinline)) static int acquire(struct fg_lock *l, const struct fgi_spin_budget *p)
{
	int result;

	do {
		struct fg_queue_node *node = join(l, p->deadline != NULL);

		if (node) {
			result = wait_in_queue(l, node, p);
		} else if (fgi_trylock(l)) {
			result = 0;
		} else {
			fgi_spin_once();
			result = fgi_past_deadline(p) ? ETIMEDOUT : EAGAIN;
		}
	} while (result == EAGAIN);
	return result;
}

static inline void fgi_lock(struct fg_lock *l)
{
	acquire(l, &FGI_NO_DEADLINE);
}

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	return acquire(l, &FGI_SPIN_BUDGET(clock, abs));
}

/* Grants the lock to the thread of `node`, or makes the node one to be skipped. The new holder is named before the
 * grant: its stamp is that of its last spin, so if it was preempted since, the others soon see that. */
static bool grant(struct fg_lock *l, struct fg_queue_node *node, uint64_t now)
{
	for (;;) {
		uint32_t state = fgi_queue_state(node); /* WAITING or LEFT, and it may change between the two */

		if (state == FG_NODE_WAITING && !tp_stale(node, now, TP_STALE_NS)) {
			tp_set_holder(l, node);
			if (fgi_drop_cas32(&node->state, FG_NODE_WAITING, FG_NODE_GRANTED) == FG_NODE_WAITING)
				return true;
		} else if (fg_cas_acq_rel(&node->state, state, FG_NODE_PASSED) == state) {
			return false;
		}
	}
}

/* Walks down the queue. `held` stays the caller's until a grant or the end of the queue lowers it. */
__attribute__((noinline)) static void pass_on(struct fg_lock *l, struct fg_queue_node *mine)
{
	struct fg_queue_node *node = mine, *next;
	uint64_t now = fgi_now_ns(CLOCK_MONOTONIC);
	bool granted = false;

	while (!granted) {
		next = fgi_queue_retire(&l->tail, node);
		if (node != mine)
			fg_store_release(&node->state, FG_NODE_FREE); /* pairs with the acquire in wait_in_queue */
		if (!next)
			break;
		node = next;
		granted = grant(l, node, now);
	}
	fgi_node_put(mine);
}

static inline void fgi_unlock(struct fg_lock *l)
{
	uint64_t tag = tp_mind_fork(l);
	struct fg_queue_node *node = tp_holder(l);
	uint64_t tail = fgi_node_word(node) + tag;

	if (!fg_load_relaxed(&node->next) && fgi_drop_cas64(&l->tail, tail, 0) == tail)
		fgi_node_put(node);
	else
		pass_on(l, node);
}
