/* SPDX-License-Identifier: MIT */
/* The Shuffle lock, spin-then-park (Kashyap et al., SOSP 2019; sections 2.1.2 and 2.2).
 *
 * A word decides ownership; those who find it taken queue up (MCS), and only the queue's head waits for the word. It
 * uses the time to shuffle: waiters of its own NUMA node move up behind it, and those that sleep are woken ahead of
 * time, to sleep no more before they are the head.
 *
 *   word    locks/parts/owner_word.h: 0 free, or the owner's tid
 *   queue   the MCS tail; states of a node: locks/parts/spin_then_park.h
 *   in a node: numa = its NUMA node, in_a_row = how many hand-overs in a row that NUMA node has had
 *
 * Waiting policy: the head spins for up to a time slice, then sleeps on the word (in the paper it goes on spinning; but
 * a holder that sleeps would burn its CPU). All others spin for about a context switch, then sleep on their nodes until
 * they are shuffled: of many threads nearly all end up awake, and that is how it degrades (Fig. 1). The free word goes
 * to whoever comes first (lock stealing): that hides the wake-up of a sleeping head.
 * I1  the word alone. I2  locks/parts/owner_word.h, locks/parts/spin_then_park.h; only the head sleeps on the word. I3  only the head changes
 *     the links of others, and only of nodes that have a successor: the tail's link is its successor's to write.
 * I4  not kept against stealing, as published. In the queue a NUMA node is favoured for BATCH hand-overs in a row.
 * I5  exactly: the owner by intent, the head by its node's state.
 * Memory: 16 bytes; one node (64 bytes) a thread, whatever the number of locks that it holds. A waiter cannot leave, so
 * a timed wait polls without queueing. */
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

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

#define BATCH 1024u             /* the paper's bound (docs/design/locks.md) */
#define TURNS_PER_SHUFFLE 1024u /* a walk along the queue costs some cache misses */

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
			fgi_node_wake_ahead(node);
		} else if (next) {
			fg_store_relaxed(&before->next, fgi_node_word(next));
			fg_store_relaxed(&node->next, last->next);
			fg_store_relaxed(&last->next, fgi_node_word(node));
			last = node;
			fgi_node_wake_ahead(node);
		}
	}
}

static inline void wait_as_head(struct fg_lock *l, struct fg_queue_node *head)
{
	struct fgi_bound bound = {0};

	while (!fgi_word_try(&l->word, 0)) {
		if (bound.turns % TURNS_PER_SHUFFLE == 0 && node_private(head)->in_a_row < BATCH)
			shuffle(l, head);
		if (fgi_bound_passed(&bound, FGI_SPIN_SLICE_NS)) {
			fgi_word_park(&l->word, CLOCK_MONOTONIC, NULL);
			bound = (struct fgi_bound){0};
		}
		fg_pause();
	}
}

/* The head has the word, and leaves the queue before it enters its critical section. */
static inline void pass_head(struct fg_lock *l, struct fg_queue_node *head)
{
	struct fg_queue_node *next;

	fgi_held_raise(); /* the head's criticality goes from the node's state to `held`, until it is passed on */
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
	fgi_enqueue(&l->queue, node);
	fgi_node_wait(node);
	wait_as_head(l, node);
	pass_head(l, node);
}

static inline bool fgi_trylock(struct fg_lock *l)
{
	return fgi_word_try(&l->word, 0);
}

static inline void fgi_lock(struct fg_lock *l)
{
	if (!fg_likely(fgi_trylock(l)))
		wait_in_queue(l);
}

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	return fgi_poll(l, fgi_trylock, clock, abs);
}

static inline void fgi_unlock(struct fg_lock *l)
{
	fgi_word_drop(&l->word);
}
