/* SPDX-License-Identifier: MIT */
/* The Malthusian lock: MCS with concurrency restriction, spin-then-park (Dice, EuroSys 2017, MCSCR-STP; section 2.2).
 *
 * Only as many threads circulate over the lock as keep it busy. When the holder releases the lock and more than one
 * thread waits, the first waiter is culled: it goes to a passive list, and the one behind it gets the lock. When the
 * queue is empty, the thread that became passive last comes back. Once in FAVOUR releases, at random, the eldest
 * passive thread gets the lock.
 *
 * The words of the lock: locks/parts/mcs_lock.h. While the lock is free no thread is passive.
 *   in the holder's node: youngest = the thread that became passive last, NULL if there is none
 *   in a passive node:    elder, younger = its neighbours in the order in which they became passive; a ring
 * The list belongs to the holder. It travels with the grant, so it takes no space in the lock and needs no protection.
 *
 * Waiting policy: spin for about a context switch, then sleep (locks/parts/spin_then_park.h), in the queue and in the
 * list alike.
 * I1, I5  as locks/parts/mcs_lock.h. I2  locks/parts/spin_then_park.h; a release never leaves passive threads behind a
 *     free lock. I3  a node is in the queue or in the list, and only the holder moves it.
 * I4  statistically: a release favours the eldest with probability 1/FAVOUR. No thread starves; long waits are the
 * rule.
 * Deviations: one waiter at most is culled in a release. A timed wait polls, and a contended lock is handed over
 * without being free in between, so a timed wait may fail where a waiter in the queue would not. */
#include "locks/parts/mcs_lock.h"
#include "locks/parts/random.h"
#include "locks/parts/spin_then_park.h"

struct malthusian_node {
	uint64_t youngest, elder, younger; /* addresses of nodes */
} FGI_IN_NODE;
FGI_NODE_PRIVATE(struct malthusian_node);

/* The paper's value from memory; LiTL, whose version the paper's author approved, has 1,024 (docs/design/locks.md). */
#define FAVOUR 1000u

/* ---- the passive list; only the holder calls these ---- */

static inline struct fg_queue_node *elder(const struct fg_queue_node *node)
{
	return fgi_node_at(node_private(node)->elder);
}

static inline struct fg_queue_node *younger(const struct fg_queue_node *node)
{
	return fgi_node_at(node_private(node)->younger);
}

static inline void join_ring(struct fg_queue_node *young, struct fg_queue_node *old)
{
	node_private(young)->elder = fgi_node_word(old);
	node_private(old)->younger = fgi_node_word(young);
}

static void make_passive(struct fg_queue_node **youngest, struct fg_queue_node *node)
{
	struct fg_queue_node *eldest = *youngest ? younger(*youngest) : node;

	join_ring(eldest, node);
	join_ring(node, *youngest ? *youngest : node);
	*youngest = node;
}

static struct fg_queue_node *take_back(struct fg_queue_node **youngest, struct fg_queue_node *node)
{
	if (elder(node) == node) {
		*youngest = NULL;
		return node;
	}
	if (*youngest == node)
		*youngest = elder(node);
	join_ring(younger(node), elder(node));
	return node;
}

/* ---- the lock ---- */

static inline struct fg_queue_node *new_node(struct fg_lock *l)
{
	struct fg_queue_node *node = fgi_node_need(&l->tail);

	node_private(node)->youngest = 0;
	return node;
}

static inline void fgi_lock(struct fg_lock *l)
{
	fgi_mcs_lock(l, new_node(l), fgi_node_wait);
}

static inline bool fgi_trylock(struct fg_lock *l)
{
	return fgi_mcs_trylock(l, new_node);
}

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	return fgi_poll(l, clock, abs);
}

/* Threads wait in the queue, `next` first. Returns the successor: `favoured`, a passive thread, if it is not NULL. */
static struct fg_queue_node *choose(struct fg_queue_node *next, struct fg_queue_node *favoured,
				    struct fg_queue_node **youngest)
{
	struct fg_queue_node *second;

	if (favoured) {
		fg_store_relaxed(&favoured->next, fgi_node_word(next));
		return take_back(youngest, favoured);
	}
	second = fgi_node_next(next);
	if (!second)
		return next;
	make_passive(youngest, next); /* has a successor, so no thread writes its link any more */
	return second;
}

/* The queue seems to be empty: puts a passive thread in the holder's place at its end. NULL if a thread has joined. */
static struct fg_queue_node *revive(struct fg_lock *l, struct fg_queue_node *mine, struct fg_queue_node *node,
				    struct fg_queue_node **youngest)
{
	fg_store_relaxed(&node->next, 0);
	if (!fgi_queue_replace_last(&l->tail, mine, node))
		return NULL;
	return take_back(youngest, node);
}

/* Whether the eldest is favoured is decided before the queue is looked at: with few threads in circulation the queue
 * may be empty at every release, and then the eldest would wait for ever. */
static inline void fgi_unlock(struct fg_lock *l)
{
	struct fg_queue_node *node = fgi_mcs_mine(l), *youngest = fgi_node_at(node_private(node)->youngest);
	struct fg_queue_node *favoured = youngest && fgi_once_in(FAVOUR) ? younger(youngest) : NULL;
	struct fg_queue_node *successor = NULL, *next;

	if (youngest && !fgi_node_next(node))
		successor = revive(l, node, favoured ? favoured : youngest, &youngest);
	if (!successor) {
		next = youngest ? fgi_queue_await_link(node) : fgi_queue_retire(&l->tail, node);
		if (next)
			successor = choose(next, favoured, &youngest);
	}
	if (successor) {
		node_private(successor)->youngest = fgi_node_word(youngest);
		fgi_node_grant(successor);
	}
	fgi_node_put(node);
}
