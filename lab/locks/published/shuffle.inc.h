/* SPDX-License-Identifier: MIT */
/* The Shuffle lock, spin-then-park (Kashyap et al., SOSP 2019; sections 2.1.2 and 2.2).
 *
 * A word decides ownership. Threads that find it taken queue up (MCS), and only the queue's head waits for the word.
 * The head uses that time to shuffle the queue: waiters of its own NUMA node move up behind it, and those that sleep
 * are woken early, and sleep no more before they are the head.
 *
 *   word    locks/parts/owner_word.h: 0 free, or the owner's tid
 *   queue   the MCS tail; states of a node: locks/parts/spin_then_park.h
 *   in a node: numa = the NUMA node of its thread, in_a_row = how many hand-overs in a row that NUMA node has had
 *
 * Waiting policy: the head spins for up to a time slice, then sleeps on the word. The others spin for about a context
 * switch, then sleep on their nodes until they are shuffled. With many threads nearly all end up awake, and that is how
 * the lock degrades (Fig. 1). A thread that arrives may take the free word before the head (lock stealing), which hides
 * the wake-up of a sleeping head.
 * I1  The word alone. I2  locks/parts/owner_word.h, locks/parts/spin_then_park.h; only the head sleeps on the word.
 * I3  Only the head changes the links of other nodes, and only of nodes that have a successor: the link of the last
 *     node is its successor's to write. I4  Not kept against stealing, as published. In the queue a NUMA node is
 *     favoured for BATCH hand-overs in a row. I5  Exactly: the owner by intent, the head by its node's state.
 * Memory: 16 bytes; one node (64 bytes) a thread, whatever the number of locks that it holds.
 * Deviations: the published head goes on spinning, here it sleeps after a time slice, since beside a holder that sleeps
 * it would burn its CPU. Only the head shuffles, the published lock passes that role on to a waiter. A run within a
 * NUMA node ends after BATCH hand-overs, in the authors' code at random, once in as many. The authors' spinning lock
 * closes the fast path to arriving threads while threads queue; here stealing is never forbidden
 * (lab/variants/shuffle-closed.inc.h forbids it). A waiter cannot leave, so a timed wait polls without queueing. */
#include "locks/parts/numa.h"
#include "locks/parts/owner_word.h"
#include "locks/parts/spin_then_park.h"

struct fg_lock {
	uint32_t word;
	uint32_t unused;
	uint64_t queue;
};

struct shuffle_node {
	uint32_t numa, in_a_row;
} FGI_IN_NODE;
FGI_NODE_PRIVATE(struct shuffle_node);

#define BATCH 1024u             /* the paper's MAX_SHUFFLES (docs/design/locks.md) */
#define SPINS_PER_SHUFFLE 1024u /* ours: a walk along the queue costs a cache miss for each node */

static inline bool is_local(const struct fg_queue_node *node, const struct fg_queue_node *head)
{
	return node_private(node)->numa == node_private(head)->numa;
}

/* Moves waiters of the head's NUMA node up, in their order, until the word is free or the queue ends. */
__attribute__((noinline)) static void shuffle(struct fg_lock *l, struct fg_queue_node *head)
{
	struct fg_queue_node *last = head, *before = head, *node = fgi_node_next(head), *next;

	for (; node && fg_load_relaxed(&l->word) != 0; node = next) {
		next = fgi_node_next(node);
		if (!is_local(node, head)) {
			before = node;
		} else if (before == last) { /* in its place already */
			before = last = node;
			fgi_node_wake_early(node);
		} else if (next) {
			fg_store_relaxed(&before->next, fgi_node_word(next));
			fg_store_relaxed(&node->next, last->next);
			fg_store_relaxed(&last->next, fgi_node_word(node));
			last = node;
			fgi_node_wake_early(node);
		}
	}
}

static inline void wait_as_head(struct fg_lock *l, struct fg_queue_node *head)
{
	struct fgi_spin_budget p = FGI_NO_DEADLINE;

	while (!fgi_word_try(&l->word, 0)) {
		if (p.spins % SPINS_PER_SHUFFLE == 0 && node_private(head)->in_a_row < BATCH)
			shuffle(l, head);
		if (fgi_spun_for(&p, FGI_SPIN_SLICE_NS)) {
			fgi_word_park(&l->word, &p);
			p = FGI_NO_DEADLINE;
		}
		fgi_spin_once();
	}
}

/* The head has the word, and leaves the queue before it enters its critical section. */
static inline void pass_head(struct fg_lock *l, struct fg_queue_node *head)
{
	struct fg_queue_node *next;

	fgi_held_raise(); /* from here on `held` says that the head is critical, no longer the node's state */
	fgi_publish_node(NULL);
	next = fgi_queue_retire(&l->queue, head);
	if (next) {
		node_private(next)->in_a_row = is_local(next, head) ? node_private(head)->in_a_row + 1 : 0;
		fgi_node_grant(next);
	}
	fgi_node_put(head);
}

__attribute__((noinline)) static void wait_in_queue(struct fg_lock *l)
{
	struct fg_queue_node *node = fgi_node_need(&l->queue);

	*node_private(node) = (struct shuffle_node){.numa = fgi_numa_node()};
	fgi_publish_node(node);
	fgi_enqueue(&l->queue, node, fgi_tail_mind_fork(&l->queue, NULL));
	fgi_node_wait(node);
	wait_as_head(l, node);
	pass_head(l, node);
}

static inline bool fgi_trylock(struct fg_lock *l)
{
	return fgi_word_try(&l->word, 0);
}

#ifndef STEALING
#define STEALING true
#endif

static inline void fgi_lock(struct fg_lock *l)
{
	/* relaxed: whether threads queue is a matter of fairness only */
	bool may_try = STEALING || fg_load_relaxed(&l->queue) == 0;

	if (!fg_likely(may_try && fgi_trylock(l)))
		wait_in_queue(l);
}

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	return fgi_poll(l, clock, abs);
}

static inline void fgi_unlock(struct fg_lock *l)
{
	fgi_word_drop(&l->word);
}
