/* SPDX-License-Identifier: MIT */
/* CNA, the compact NUMA-aware lock (Dice and Kogan, EuroSys 2019; section 2.2): MCS, handed over within a NUMA node.
 *
 * The words of the lock: locks/parts/mcs_lock.h. While the lock is free the secondary queue is empty.
 *   in each node:                 numa = the NUMA node of its thread
 *   in the holder's node:         second = the first node of the secondary queue, NULL if that is empty
 *   in the first of that queue:   last = its last node
 *
 * A holder that releases the lock looks along the main queue for the first waiter of its own NUMA node. The waiters
 * before that one move to the end of the secondary queue. If there is none, or at random once in LOCAL_HAND_OVERS, the
 * secondary queue goes back to the front of the main queue and its first waiter gets the lock. The secondary queue
 * travels with the grant, so the lock is no larger than MCS.
 *
 * Waiting policy: spin, always, each waiter on its own node, so it collapses as soon as the next waiter is off CPU.
 * I1, I5  as locks/parts/mcs_lock.h. I3  a node is in one of the two queues; only the holder moves it, and only after
 *     its link is written. I4  statistically.
 * Deviations: `holder` spares unlock an argument; the paper's option of shuffle reduction is left out. (LiTL's
 * version, which the FlexGuard paper measured, has 1,024 local hand-overs.) */
#include "locks/parts/mcs_lock.h"
#include "locks/parts/numa.h"
#include "locks/parts/random.h"

struct cna_node {
	uint64_t second, last; /* addresses of nodes */
	uint32_t numa;
} FGI_IN_NODE;
FGI_NODE_PRIVATE(struct cna_node);

#define LOCAL_HAND_OVERS 65536u /* on average; the paper's threshold, as in its code for Linux */

static inline struct fg_queue_node *new_node(struct fg_lock *l)
{
	struct fg_queue_node *node = fgi_node_need(&l->tail);

	node_private(node)->numa = fgi_numa_node();
	node_private(node)->second = 0;
	return node;
}

static inline void fgi_lock(struct fg_lock *l)
{
	fgi_mcs_lock(l, new_node(l), fgi_node_spin);
}

static inline bool fgi_trylock(struct fg_lock *l)
{
	return fgi_mcs_trylock(l, new_node);
}

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	return fgi_poll(l, clock, abs);
}

/* ---- the secondary queue; only the holder calls these ---- */

static inline struct fg_queue_node *last_of(const struct fg_queue_node *second)
{
	return fgi_node_at(node_private(second)->last);
}

/* Moves `first` to `last`, which has a successor, to the end of the secondary queue. */
static void move_aside(struct fg_queue_node **second, struct fg_queue_node *first, struct fg_queue_node *last)
{
	fg_store_relaxed(&last->next, 0);
	if (*second)
		fg_store_relaxed(&last_of(*second)->next, fgi_node_word(first));
	else
		*second = first;
	node_private(*second)->last = fgi_node_word(last);
}

/* The first waiter of the holder's NUMA node, from `next` on; NULL if there is none. */
static struct fg_queue_node *find_local(const struct fg_queue_node *mine, struct fg_queue_node *next,
					struct fg_queue_node **second)
{
	struct fg_queue_node *node = next, *before = NULL;

	while (node && node_private(node)->numa != node_private(mine)->numa) {
		before = node;
		node = fgi_node_next(node);
	}
	if (node && before)
		move_aside(second, next, before);
	return node;
}

/* Threads wait in the main queue, `next` first. Returns the successor. */
static struct fg_queue_node *choose(struct fg_queue_node *mine, struct fg_queue_node *next,
				    struct fg_queue_node **second)
{
	struct fg_queue_node *chosen = NULL;

	if (!*second || !fgi_once_in(LOCAL_HAND_OVERS))
		chosen = find_local(mine, next, second);
	if (chosen)
		return chosen;
	chosen = *second;
	if (!chosen)
		return next;
	fg_store_relaxed(&last_of(chosen)->next, fgi_node_word(next));
	*second = NULL;
	return chosen;
}

static inline void fgi_unlock(struct fg_lock *l)
{
	struct fg_queue_node *node = fgi_mcs_mine(l), *second = fgi_node_at(node_private(node)->second);
	struct fg_queue_node *successor = NULL, *next;

	/* If the main queue seems to be empty the secondary one takes its place, unless a thread has joined. */
	if (second && !fgi_node_next(node) && fgi_queue_replace_last(&l->tail, node, last_of(second))) {
		successor = second;
		second = NULL;
	} else {
		next = second ? fgi_queue_await_link(node) : fgi_queue_retire(&l->tail, node);
		if (next)
			successor = choose(node, next, &second);
	}
	if (successor) {
		node_private(successor)->second = fgi_node_word(second);
		fgi_drop_store32(&successor->state, FG_NODE_GRANTED);
	}
	fgi_node_put(node);
}
