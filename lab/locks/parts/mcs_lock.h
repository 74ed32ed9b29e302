/* SPDX-License-Identifier: MIT */
/* The MCS lock whose holder stays in the queue (Mellor-Crummey and Scott 1991): what mcs, malthusian and cna share.
 * They differ in what they keep in a node, in how a waiter waits for the grant, and in the release.
 *
 *   tail    holder   meaning
 *   NULL    -        free
 *   node    node     held; the tail's thread holds the lock or waits last
 *
 * A thread needs one node for each lock that it holds or waits for (64 bytes). `holder` is where the release finds the
 * node. Only the holder writes it, and only the holder reads it; after a fork the child's first user of the lock reads
 * it, too. A waiter cannot leave, so a timed wait polls without queueing (fgi_poll).
 * I1  By the exchange of the tail and the grant of the predecessor there is one owner. I3  Nodes are type-stable
 *     (runtime/node.h). I5  Windows around the enqueueing and the releasing instructions; between them the node's state
 *     tells the monitor. */
#ifndef FGI_PARTS_MCS_LOCK_H
#define FGI_PARTS_MCS_LOCK_H

#include "locks/parts/mcs_queue.h"

struct fg_lock {
	uint64_t tail;
	uint64_t holder; /* the address of a node */
};

/* The first thing that each operation does (locks/parts/mcs_queue.h, Forks). Returns the tag of the tail. */
static inline uint64_t fgi_mcs_mind_fork(struct fg_lock *l)
{
	return fgi_tail_mind_fork(&l->tail, &l->holder);
}

/* The node of the calling thread, which holds the lock and is about to release it. */
static inline struct fg_queue_node *fgi_mcs_mine(struct fg_lock *l)
{
	fgi_mcs_mind_fork(l);
	return fgi_node_at(fg_load_relaxed(&l->holder));
}

static inline void fgi_mcs_own(struct fg_lock *l, struct fg_queue_node *node)
{
	fg_store_relaxed(&node->state, FG_NODE_OWNED);
	fg_store_relaxed(&l->holder, fgi_node_word(node));
}

/* Takes the lock with the new node, waiting for the grant by `wait`. */
static inline __attribute__((always_inline)) void fgi_mcs_lock(struct fg_lock *l, struct fg_queue_node *node,
							       void (*wait)(struct fg_queue_node *))
{
	fgi_publish_node(node);
	fgi_enqueue(&l->tail, node, fgi_mcs_mind_fork(l));
	wait(node);
	fgi_held_raise();
	fgi_publish_node(NULL);
	fgi_mcs_own(l, node);
}

/* Takes the lock if it is free, with a node from `new_node`. */
static inline __attribute__((always_inline)) bool fgi_mcs_trylock(struct fg_lock *l,
								  struct fg_queue_node *(*new_node)(struct fg_lock *))
{
	uint64_t tag = fgi_mcs_mind_fork(l);
	struct fg_queue_node *node;

	if (fg_load_relaxed(&l->tail) != 0)
		return false;
	node = new_node(l);
	if (fgi_take_cas64(&l->tail, fgi_node_word(node) + tag) != 0) {
		fgi_node_put(node);
		return false;
	}
	fgi_mcs_own(l, node);
	return true;
}

#endif
