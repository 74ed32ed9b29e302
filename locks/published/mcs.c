/* SPDX-License-Identifier: MIT */
/* The MCS queue lock (Mellor-Crummey and Scott 1991; section 2.1.2).
 *
 *   tail    holder   meaning
 *   NULL    -        free
 *   node    node     held; the tail's thread holds it or waits last
 *
 * The holder's node stays in the queue until the release, so a thread needs one node for each lock that it holds (64
 * bytes). `holder` is where unlock finds the node: written and read by the holder only.
 * Waiting policy: spin, always, each on its own node; strictly first come, first served (I4), so it collapses as soon
 * as one waiter in the queue is off CPU. A waiter cannot leave, so a timed wait polls without queueing.
 * I1  the tail's XCHG and the grant of the predecessor: one owner. I3  nodes are type-stable (runtime/node.h).
 * I5  windows around the enqueueing and the two releasing instructions; in between the node's state tells. */
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

static inline void own(struct fg_lock *l, struct fg_queue_node *node)
{
	fg_store_relaxed(&node->state, FG_NODE_OWNED);
	l->holder = node;
}

static inline void fgi_lock(struct fg_lock *l)
{
	struct fg_queue_node *node = fgi_node_need(&l->tail);

	fgi_publish_node(node);
	fgi_enqueue(&l->tail, node);
	while (fgi_queue_state(node) == FG_NODE_WAITING)
		fg_pause();
	fgi_held_raise();
	fgi_publish_node(NULL);
	own(l, node);
}

static inline bool fgi_trylock(struct fg_lock *l)
{
	struct fg_queue_node *node;

	if (fg_load_relaxed(&l->tail) != 0)
		return false;
	node = fgi_node_need(&l->tail);
	if (fgi_take_cas64(&l->tail, fgi_node_word(node)) != 0) {
		fgi_node_put(node);
		return false;
	}
	own(l, node);
	return true;
}

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	struct fgi_spin_budget p = FGI_SPIN_BUDGET(clock, abs);

	while (!fgi_trylock(l)) {
		if (fgi_deadline_reached(&p))
			return ETIMEDOUT;
		fg_pause();
	}
	return 0;
}

static inline void fgi_unlock(struct fg_lock *l)
{
	struct fg_queue_node *node = l->holder, *next = (struct fg_queue_node *)(uintptr_t)fg_load_acquire(&node->next);

	if (!next) {
		if (fgi_drop_cas64(&l->tail, fgi_node_word(node), 0) == fgi_node_word(node)) {
			fgi_node_put(node);
			return;
		}
		next = fgi_queue_await_link(node);
	}
	fgi_drop_store32(&next->state, FG_NODE_GRANTED);
	fgi_node_put(node);
}
