/* SPDX-License-Identifier: MIT */
/* The Malthusian lock: MCS with concurrency restriction, spin-then-park (Dice, EuroSys 2017, MCSCR-STP; section 2.2).
 *
 * Only as many threads circulate over the lock as keep it busy. When the holder releases and more than one waits, the
 * first waiter is culled: it goes to a passive list, and the one behind it gets the lock. When nobody waits in the
 * queue, the waiter that went passive last comes back. Now and then, by lot, the eldest of the passive gets the lock.
 *
 *   tail    holder   meaning
 *   NULL    -        free; nobody is passive
 *   node    node     held; the tail's thread holds it or waits last
 *
 *   in the holder's node: youngest = the passive waiter that came last, NULL if there is none
 *   in a passive node:    elder, younger = its neighbours in the order in which they went passive; a ring
 *
 * The list belongs to the holder: it travels with the grant, so it takes no room in the lock and needs no protection.
 * Waiting policy: spin for about a context switch, then sleep (locks/parts/spin_then_park.h), in the queue and in the list alike.
 * I1  the tail's XCHG and the grant: one owner. I2  locks/parts/spin_then_park.h; the passive are never left behind a free lock.
 * I3  a node is in the queue or in the list, and only the holder moves it.
 * I4  by lot: an unlock favours the eldest with probability 1/FAVOUR, so nobody starves, but long waits are the rule.
 * I5  windows around the enqueueing and the two releasing instructions; in between the node's state tells.
 * Memory: 16 bytes; one node (64 bytes) for each lock that a thread holds or waits for. A timed wait polls without
 * queueing, and a lock that is handed over is seldom free: under contention it may time out where a waiter would
 * not. */
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "locks/parts/spin_then_park.h"

struct fg_lock {
	uint64_t tail;
	struct fg_queue_node *holder;
};

struct malthusian_node {
	uint64_t youngest, elder, younger; /* addresses of nodes */
} FGI_IN_NODE;
FGI_NODE_PRIVATE(struct malthusian_node);

/* As we remember the paper; the lock library whose version Dice approved has 1,024 (docs/design/locks.md). */
#define FAVOUR 1000u

/* ---- the passive list; only the holder is here ---- */

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

static inline void own(struct fg_lock *l, struct fg_queue_node *node)
{
	fg_store_relaxed(&node->state, FG_NODE_OWNED);
	l->holder = node;
}

static inline void fgi_lock(struct fg_lock *l)
{
	struct fg_queue_node *node = fgi_node_need(&l->tail);

	node_private(node)->youngest = 0;
	fgi_publish_node(node);
	fgi_enqueue(&l->tail, node);
	fgi_node_wait(node);
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
	node_private(node)->youngest = 0;
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

static inline bool favours_the_eldest(void)
{
	static __thread uint32_t lot __attribute__((tls_model("initial-exec")));

	lot = lot * 1664525u + 1013904223u;
	return (lot >> 8) % FAVOUR == 0;
}

/* Somebody waits in the queue, `next` first: who gets the lock? `favoured`: a passive waiter, or NULL. */
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
	make_passive(youngest, next); /* has a successor, so nobody writes its link any more */
	return second;
}

/* Nobody seems to wait in the queue: has a passive waiter take the holder's place at its end. */
static struct fg_queue_node *revive(struct fg_lock *l, struct fg_queue_node *mine, struct fg_queue_node *node,
				    struct fg_queue_node **youngest)
{
	fg_store_relaxed(&node->next, 0);
	/* release: the next to enqueue finds the link empty */
	if (fg_cas_acq_rel(&l->tail, fgi_node_word(mine), fgi_node_word(node)) != fgi_node_word(mine))
		return NULL;
	return take_back(youngest, node);
}

/* The lot is cast first, for with few threads in circulation the queue may be empty at each release: then the elder of
 * the passive would wait for ever. */
static inline void fgi_unlock(struct fg_lock *l)
{
	struct fg_queue_node *node = l->holder, *youngest = fgi_node_at(node_private(node)->youngest), *heir = NULL;
	struct fg_queue_node *favoured = youngest && favours_the_eldest() ? younger(youngest) : NULL, *next;

	if (youngest && !fgi_node_next(node))
		heir = revive(l, node, favoured ? favoured : youngest, &youngest);
	if (!heir) {
		next = youngest ? fgi_queue_await_link(node) : fgi_queue_retire(&l->tail, node);
		if (next)
			heir = choose(next, favoured, &youngest);
	}
	if (heir) {
		node_private(heir)->youngest = fgi_node_word(youngest);
		fgi_node_grant(heir);
	}
	fgi_node_put(node);
}
