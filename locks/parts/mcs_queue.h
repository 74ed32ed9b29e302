/* SPDX-License-Identifier: MIT */
/* The MCS queue of waiters that a waiter may leave at any time (section 3.2.1, with the exit made safe).
 *
 * As published, a waiter that leaves out of order tells its successor that it is the head, and its predecessor later
 * writes into a node that is by then in another queue, or gone. Here nobody but the head passes the head on:
 *
 *   state     the node's thread                     who moves it on
 *   FREE      does not use it                       its thread, when it queues: -> WAITING
 *   WAITING   waits behind the head                 the head before it: -> GRANTED;  its thread, leaving: -> LEFT
 *   GRANTED   is the head, the next to get the lock its thread, passing the head on: -> FREE
 *   LEFT      waits elsewhere, or not at all        its thread, coming back: -> WAITING;  the head: -> PASSED
 *   PASSED    the same, its place is gone           the head: -> FREE, its last write to it
 *
 * Leaving is one CAS, whatever the other threads do; a node that was left stays linked until the head skips it. All
 * moves out of WAITING and LEFT are CASes, so leaving, granting, skipping and coming back exclude one another.
 *
 * I3  A node is in one queue at most, and nobody writes to it once it is FREE: the successor's link is the one write
 *     from behind, and the head is passed on (or the tail reset) only after that link was seen (or cannot come).
 * I5  The head is critical. Before it passes the head on, its thread raises `held`, and the passing store lowers it
 *     within its window: so the head counts until the very store, and not after.
 * Each queue that is not empty has a thread in it that is the head or will be told so, and every head leaves before its
 * lock call returns: when no thread is in a call on the lock, the queue is empty, and the lock may be destroyed. */
#ifndef FGI_PARTS_MCS_QUEUE_H
#define FGI_PARTS_MCS_QUEUE_H

#include <stdbool.h>

#include "runtime/arch/arch.h"
#include "runtime/futex.h"
#include "runtime/node.h"
#include "runtime/thread.h"

static inline uint64_t fgi_node_word(const struct fg_queue_node *node)
{
	return (uint64_t)(uintptr_t)node;
}

/* acquire: pairs with the head's release when it granted, so that a new head sees what the old one did. */
static inline uint32_t fgi_queue_state(const struct fg_queue_node *node)
{
	return fg_load_acquire(&node->state);
}

/* Joins the queue at `tail`, or takes up again the place in it that this thread left. Returns the node, WAITING or
 * GRANTED; NULL: no node is to be had, wait without. */
static inline struct fg_queue_node *fgi_queue_join(uint64_t *tail)
{
	struct fg_queue_node *node = fgi_node_left_at(tail);

	if (fg_unlikely(node != NULL)) {
		fgi_publish_node(node); /* before it can be granted */
		if (fg_cas_acq_rel(&node->state, FG_NODE_LEFT, FG_NODE_WAITING) == FG_NODE_LEFT) {
			fgi_node_take_back(node);
			return node;
		}
		/* PASSED or FREE: the place is gone */
	}
	node = fgi_node_get(tail);
	fgi_publish_node(node);
	if (node)
		fgi_enqueue(tail, node);
	return node;
}

/* The successor has swung the tail but not linked itself yet. It is critical while it is there, so if it was preempted
 * the mode is blocking by now; the paper measured that blocking here gains nothing, and it cannot be waited for by a
 * futex. But a real-time head may have taken its CPU away: so after a slice's worth of turns, sleep a little. */
__attribute__((noinline, cold)) static struct fg_queue_node *fgi_queue_await_link(struct fg_queue_node *node)
{
	uint64_t next;

	for (unsigned int turn = 0; !(next = fg_load_acquire(&node->next)); turn++) {
		if (turn < 100000)
			fg_pause();
		else
			fgi_nap(50000);
	}
	return (struct fg_queue_node *)(uintptr_t)next;
}

/* Passes the head on to the first successor that still waits, or empties the queue. The caller is the head and has
 * raised `held` for it; the store that passes the head on lowers it. */
__attribute__((noinline)) static void fgi_queue_pass(uint64_t *tail, struct fg_queue_node *node)
{
	struct fg_queue_node *mine = node, *next;
	uint32_t found;

	for (;;) {
		next = (struct fg_queue_node *)(uintptr_t)fg_load_acquire(&node->next);
		if (!next && fgi_drop_cas64(tail, fgi_node_word(node), 0) == fgi_node_word(node))
			break;
		if (!next)
			next = fgi_queue_await_link(node);
		if (node != mine)
			fg_store_release(&node->state, FG_NODE_FREE); /* pairs with recover() in runtime/node.c */
		node = next;
		found = fgi_drop_cas32(&node->state, FG_NODE_WAITING, FG_NODE_GRANTED);
		while (found == FG_NODE_LEFT &&
		       fg_cas_acq_rel(&node->state, FG_NODE_LEFT, FG_NODE_PASSED) != FG_NODE_LEFT)
			found = fgi_drop_cas32(&node->state, FG_NODE_WAITING, FG_NODE_GRANTED); /* it came back */
		if (found == FG_NODE_WAITING) {
			node = mine;
			break;
		}
	}
	if (node != mine)
		fg_store_release(&node->state, FG_NODE_FREE);
	fgi_node_put(mine);
}

/* Leaves the queue, from whatever place in it. */
static inline void fgi_queue_leave(uint64_t *tail, struct fg_queue_node *node)
{
	if (fg_cas_acq_rel(&node->state, FG_NODE_WAITING, FG_NODE_LEFT) == FG_NODE_WAITING) {
		fgi_publish_node(NULL);
		fgi_node_set_aside(node);
		return;
	}
	fgi_held_raise(); /* the head's criticality goes from the node's state to `held` */
	fgi_publish_node(NULL);
	fgi_queue_pass(tail, node);
}

#endif
