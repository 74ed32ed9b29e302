/* SPDX-License-Identifier: MIT */
/* CNA, the compact NUMA-aware lock (Dice and Kogan, EuroSys 2019; section 2.2): MCS, handed over within a NUMA node.
 *
 *   tail    holder   meaning
 *   NULL    -        free; the secondary queue is empty
 *   node    node     held; the tail's thread holds it or waits last
 *
 *   in each node:                numa = the NUMA node of its thread
 *   in the holder's node:        second = the first of the secondary queue, NULL if it is empty
 *   in the first of that queue:  last = its last
 *
 * A holder that releases looks along the main queue for the first waiter of its own NUMA node; those before it move to
 * the end of the secondary queue. Where there is none, or by lot once in 65,536 times, the secondary queue goes back to
 * the front and its first gets the lock. The secondary queue travels with the grant, so the lock is no larger than MCS
 * (its tail is all the lock there is; `holder` only spares unlock an argument).
 * Waiting policy: spin, always, each on its own node, so it collapses as soon as the next waiter is off CPU.
 * I1  the tail's XCHG and the grant: one owner. I3  a node is in one of the queues, only the holder moves it, and only
 *     if its link is written. I4  by lot. I5  windows around the enqueueing and the releasing instructions; in between
 *     the node's state tells.
 * Memory: 16 bytes; one node (64 bytes) for each lock that a thread holds or waits for. A timed wait polls without
 * queueing. */
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "locks/parts/numa.h"
#include "locks/parts/spin_then_park.h"

struct fg_lock {
	uint64_t tail;
	struct fg_queue_node *holder;
};

struct cna_node {
	uint64_t second, last; /* addresses of nodes */
	uint32_t numa;
} FGI_IN_NODE;
FGI_NODE_PRIVATE(struct cna_node);

#define LOCAL_HAND_OVERS 65536u /* the paper's, on average */

static inline struct fg_queue_node *new_node(struct fg_lock *l)
{
	struct fg_queue_node *node = fgi_node_need(&l->tail);

	node_private(node)->numa = fgi_numa_node();
	node_private(node)->second = 0;
	return node;
}

static inline void own(struct fg_lock *l, struct fg_queue_node *node)
{
	fg_store_relaxed(&node->state, FG_NODE_OWNED);
	l->holder = node;
}

static inline void fgi_lock(struct fg_lock *l)
{
	struct fg_queue_node *node = new_node(l);

	fgi_publish_node(node);
	fgi_enqueue(&l->tail, node);
	while (fgi_queue_state(node) == FG_NODE_WAITING) {
		fg_thread.spins++;
		fg_pause();
	}
	fgi_held_raise();
	fgi_publish_node(NULL);
	own(l, node);
}

static inline bool fgi_trylock(struct fg_lock *l)
{
	struct fg_queue_node *node;

	if (fg_load_relaxed(&l->tail) != 0)
		return false;
	node = new_node(l);
	if (fgi_take_cas64(&l->tail, fgi_node_word(node)) != 0) {
		fgi_node_put(node);
		return false;
	}
	own(l, node);
	return true;
}

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	return fgi_poll(l, fgi_trylock, clock, abs);
}

/* ---- the secondary queue; only the holder is here ---- */

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

static inline bool stays_local(void)
{
	static __thread uint32_t lot __attribute__((tls_model("initial-exec")));

	lot = lot * 1664525u + 1013904223u;
	return (lot >> 8) % LOCAL_HAND_OVERS != 0;
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

/* Somebody waits in the main queue, `next` first: who gets the lock? */
static struct fg_queue_node *choose(struct fg_queue_node *mine, struct fg_queue_node *next,
				    struct fg_queue_node **second)
{
	struct fg_queue_node *chosen = NULL;

	if (!*second || stays_local())
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

/* Nobody seems to wait in the main queue: has the secondary one take its place. */
static bool make_main(struct fg_lock *l, struct fg_queue_node *mine, struct fg_queue_node *second)
{
	/* release: the next to enqueue finds the last one's link empty */
	return fg_cas_acq_rel(&l->tail, fgi_node_word(mine), node_private(second)->last) == fgi_node_word(mine);
}

static inline void fgi_unlock(struct fg_lock *l)
{
	struct fg_queue_node *node = l->holder, *second = fgi_node_at(node_private(node)->second), *heir = NULL, *next;

	if (second && !fgi_node_next(node) && make_main(l, node, second)) {
		heir = second;
		second = NULL;
	} else {
		next = second ? fgi_queue_await_link(node) : fgi_queue_retire(&l->tail, node);
		if (next)
			heir = choose(node, next, &second);
	}
	if (heir) {
		node_private(heir)->second = fgi_node_word(second);
		fgi_drop_store32(&heir->state, FG_NODE_GRANTED);
	}
	fgi_node_put(node);
}
