/* SPDX-License-Identifier: MIT */
/* The MCS queue of waiters (Mellor-Crummey and Scott 1991), and how a waiter leaves it at any time (section 3.2.1).
 *
 * In the published lock a waiter that leaves out of order tells its successor that it is the head. Its predecessor may
 * later write into the node that it left, which by then is in another queue. Here only the head passes the head on:
 *
 *   state     the node's thread                     what moves the state on
 *   FREE      does not use it                       its thread queues: -> WAITING
 *   WAITING   waits behind the head                 the head leaves: -> GRANTED;  its thread leaves: -> LEFT
 *   GRANTED   is the head, the next to get the lock its thread passes the head on: -> FREE
 *   LEFT      waits elsewhere, or not at all        its thread comes back: -> WAITING;  the head skips it: -> PASSED
 *   PASSED    the same; its place is gone           the head: -> FREE, its last write to the node
 *
 * A waiter leaves by one compare-and-swap. A node that was left stays linked until the head skips it. All moves out of
 * WAITING and LEFT are compare-and-swaps, so leaving, granting, skipping and coming back exclude one another.
 *
 * I3  A node is in one queue at most, and no thread but its own writes to it once it is FREE: the only write from
 *     behind is the successor's link, and the head is passed on (or the tail reset) only after that link was seen, or
 *     cannot come any more.
 * I5  The head is critical. Before its thread passes the head on it raises `held`, and the passing store lowers `held`
 *     within its window: the head counts until that store and not after it.
 *
 * Forks. The tail is the address of a node and, in the upper 16 bits, a tag: for which process it holds, by the number
 * of forks behind it (fgi_forks). A tail with another tag is from before a fork: its threads are waiters of the parent,
 * which the child does not have. The first thread of the child that uses the lock makes it what it is there: empty, or
 * the node of the thread that holds the lock. No fork handler touches the lock, whose memory the parent may share, or
 * the child may not have. Tags come again after FGI_TAIL_TAGS forks: a tail that no process has used for so many
 * generations, or for a multiple of them, would be misread.
 *
 * A queue that is not empty has a head, and every head leaves before its lock call returns. So when no thread is in a
 * call on the lock the queue is empty, and the lock's memory may go. */
#ifndef FGI_PARTS_MCS_QUEUE_H
#define FGI_PARTS_MCS_QUEUE_H

#include "lock/lock.h"
#include "runtime/node.h"

static inline uint64_t fgi_node_word(const struct fg_queue_node *node)
{
	return (uint64_t)(uintptr_t)node;
}

static inline struct fg_queue_node *fgi_node_at(uint64_t address)
{
	return (struct fg_queue_node *)(uintptr_t)address;
}

/* A user's address has 48 bits at most, unless mmap is asked for one above. */
#define FGI_TAIL_TAG_AT 48
#define FGI_TAIL_TAGS 65535u /* beside 0 */

static inline struct fg_queue_node *fgi_tail_node(uint64_t tail)
{
	return fgi_node_at(tail & ((1ull << FGI_TAIL_TAG_AT) - 1));
}

/* fgi_forks counts by twos. Tag 0 is that of processes with no fork behind them alone: they need not look at it. */
static inline uint64_t fgi_tail_tag(void)
{
	uint32_t forks = fg_load_relaxed(&fgi_forks) / 2;

	return fg_unlikely(forks) ? (uint64_t)(1 + (forks - 1) % FGI_TAIL_TAGS) << FGI_TAIL_TAG_AT : 0;
}

static inline uint64_t fgi_tail_word(const struct fg_queue_node *node)
{
	return fgi_node_word(node) + fgi_tail_tag();
}

/* Several threads of the child may do so at once: none of them ever stores a tail with another tag. */
__attribute__((noinline, cold, unused)) static void fgi_tail_repair(uint64_t *tail, uint64_t seen,
								    const uint64_t *holder)
{
	const struct fg_queue_node *node = holder ? fgi_node_at(fg_load_relaxed(holder)) : NULL;

	fg_cas_relaxed(tail, seen, node && fgi_node_holds(node, tail) ? fgi_tail_word(node) : 0);
}

/* Before a thread looks at the tail. `holder` is where the lock names the node of the thread that holds it; NULL: the
 * holder is not in the queue. Returns the tag. */
static inline uint64_t fgi_tail_mind_fork(uint64_t *tail, const uint64_t *holder)
{
	uint64_t tag = fgi_tail_tag(), seen;

	if (fg_unlikely(tag != 0)) {
		seen = fg_load_relaxed(tail);
		if (seen != 0 && (seen ^ tag) >> FGI_TAIL_TAG_AT)
			fgi_tail_repair(tail, seen, holder);
	}
	return tag;
}

/* acquire: pairs with the link that the successor stores in fgi_enqueue, after it has filled in its node. */
static inline struct fg_queue_node *fgi_node_next(const struct fg_queue_node *node)
{
	return fgi_node_at(fg_load_acquire(&node->next));
}

/* acquire: pairs with the release of the thread that granted, so that a new head sees what the old one did. */
static inline uint32_t fgi_queue_state(const struct fg_queue_node *node)
{
	return fg_load_acquire(&node->state);
}

/* Spins until the node is granted, for locks whose waiters never park or leave. */
static inline void fgi_node_spin(struct fg_queue_node *node)
{
	while (fgi_queue_state(node) == FG_NODE_WAITING)
		fgi_spin_once();
}

/* Joins the queue at `tail`, or takes up again the place in it that this thread left. Returns the node, WAITING or
 * GRANTED; NULL if no node is to be had: then the caller waits without a queue. */
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
		fgi_enqueue(tail, node, fgi_tail_mind_fork(tail, NULL));
	return node;
}

/* Puts `last`, which has no successor, in the place of the queue's last node. False if that is not `node`. The tag
 * stays what it is: in the child of a signal handler that forked after this thread had looked at the tail, `last` is
 * another thread's node, and the next thread that uses the lock is to see that. */
static inline bool fgi_queue_replace_last(uint64_t *tail, const struct fg_queue_node *node,
					  const struct fg_queue_node *last)
{
	uint64_t seen = fgi_tail_word(node), found;

	/* release: the next thread to enqueue finds the link of the last node empty */
	while ((found = fg_cas_acq_rel(tail, seen, seen - fgi_node_word(node) + fgi_node_word(last))) != seen) {
		if (fgi_tail_node(found) != node)
			return false;
		seen = found;
	}
	return true;
}

#define FGI_LINK_SPINS 100000u /* 1.5 to 5 ms, about a time slice */
#define FGI_LINK_NAP_NS 50000u /* Linux's default timer slack: a shorter sleep would not be one */

/* Waits for the link of a successor that has swung the tail. The successor is critical until it has linked itself, so
 * if it is preempted there the mode is blocking. The paper found that blocking here as well gains nothing (section
 * 3.2.1), and a link is no futex. But a head with real-time priority may have taken the successor's CPU: after about a
 * time slice the head naps between looks. */
__attribute__((noinline, cold)) static struct fg_queue_node *fgi_queue_await_link(struct fg_queue_node *node)
{
	struct fg_queue_node *next;

	for (unsigned int spin = 0; !(next = fgi_node_next(node)); spin++) {
		if (spin < FGI_LINK_SPINS)
			fgi_spin_once();
		else
			fgi_nap(FGI_LINK_NAP_NS);
	}
	return next;
}

/* The head goes. Returns its successor, which is still to be granted; or NULL if the queue is empty now: then `held`
 * has been lowered, as a grant would have done. Its node is the last one whatever the tail's tag: a signal handler may
 * have forked since this thread looked at the tail. */
static inline struct fg_queue_node *fgi_queue_retire(uint64_t *tail, struct fg_queue_node *node)
{
	struct fg_queue_node *next = fgi_node_next(node);
	uint64_t seen, found;

	if (next)
		return next;
	seen = fgi_tail_word(node);
	while ((found = fgi_drop_cas64(tail, seen, 0)) != seen) {
		if (fgi_tail_node(found) != node)
			return fgi_queue_await_link(node);
		seen = found;
	}
	return NULL;
}

/* Passes the head on to the first successor that still waits, or empties the queue. The caller is the head and has
 * raised `held` for it; the store that passes the head on lowers it. */
__attribute__((noinline)) static void fgi_queue_pass(uint64_t *tail, struct fg_queue_node *node)
{
	struct fg_queue_node *mine = node, *next;
	uint32_t found;

	for (;;) {
		next = fgi_queue_retire(tail, node);
		if (node != mine)
			fg_store_release(&node->state, FG_NODE_FREE); /* pairs with recover() in runtime/node.c */
		if (!next)
			break;
		node = next;
		found = fgi_drop_cas32(&node->state, FG_NODE_WAITING, FG_NODE_GRANTED);
		while (found == FG_NODE_LEFT &&
		       fg_cas_acq_rel(&node->state, FG_NODE_LEFT, FG_NODE_PASSED) != FG_NODE_LEFT)
			found = fgi_drop_cas32(&node->state, FG_NODE_WAITING, FG_NODE_GRANTED); /* it came back */
		if (found == FG_NODE_WAITING)
			break;
	}
	fgi_node_put(mine);
}

/* Leaves the queue from whatever place in it. Returns whether that was its head. */
static inline bool fgi_queue_leave(uint64_t *tail, struct fg_queue_node *node)
{
	if (fg_cas_acq_rel(&node->state, FG_NODE_WAITING, FG_NODE_LEFT) == FG_NODE_WAITING) {
		fgi_publish_node(NULL);
		fgi_node_set_aside(node);
		return false;
	}
	fgi_held_raise(); /* from here on `held` says that the head is critical, no longer the node's state */
	fgi_publish_node(NULL);
	fgi_queue_pass(tail, node);
	return true;
}

#endif
