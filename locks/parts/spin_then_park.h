/* SPDX-License-Identifier: MIT */
/* Spin-then-park in an MCS queue that waiters do not leave (section 2.2): what the locks with such a queue share.
 *
 * A waiter spins on its own node for about what a park and a wake-up cost, then sleeps on it.
 *
 *   state     the node's thread         who moves it on
 *   WAITING   spins                     its thread: -> PARKED;  its predecessor: -> GRANTED
 *   PARKED    sleeps on the state       its predecessor: -> GRANTED;  one that wakes it ahead of time: -> AWAKE
 *   AWAKE     spins, and sleeps no more its predecessor: -> GRANTED
 *   GRANTED   is the head of the queue  its thread
 *
 * I2  A thread sleeps only while its state is PARKED, and whoever ends that state wakes it.
 * I3  The node is type-stable; nobody writes to it after the grant but a successor, once, its link.
 * I5  A thread is critical from the grant on; the grant lowers the granter's `held` in its window. */
#ifndef FGI_PARTS_SPIN_THEN_PARK_H
#define FGI_PARTS_SPIN_THEN_PARK_H

#include <errno.h>

#include "locks/parts/mcs_queue.h"
#include "runtime/spin_budget.h"

/* Beyond the treaty's states: neither the monitor nor fork's cleaning minds. */
enum { FGI_NODE_PARKED = 16, FGI_NODE_AWAKE = 17 };

/* A bound on busy-waiting. Unlike fgi_spin_budget it never asks the Preemption Monitor. */
struct fgi_bound {
	uint32_t turns;
	uint64_t until_ns; /* CLOCK_MONOTONIC; 0: the clock has not been read yet */
};

__attribute__((noinline, cold)) static bool fgi_bound_look(struct fgi_bound *b, uint64_t ns)
{
	uint64_t now = fgi_now_ns(CLOCK_MONOTONIC);

	fg_thread.spins += FGI_TURNS_PER_LOOK;
	if (b->until_ns == 0)
		b->until_ns = now + ns;
	return now >= b->until_ns;
}

/* One turn of busy-waiting is over: have all together taken `ns`? */
static inline bool fgi_bound_passed(struct fgi_bound *b, uint64_t ns)
{
	return fg_unlikely(++b->turns % FGI_TURNS_PER_LOOK == 0) && fgi_bound_look(b, ns);
}

static inline struct fg_queue_node *fgi_node_at(uint64_t address)
{
	return (struct fg_queue_node *)(uintptr_t)address;
}

/* acquire: pairs with the link that the successor stores in fgi_enqueue, after it has filled in its node. */
static inline struct fg_queue_node *fgi_node_next(const struct fg_queue_node *node)
{
	return fgi_node_at(fg_load_acquire(&node->next));
}

/* Waits until the node is granted. */
static inline void fgi_node_wait(struct fg_queue_node *node)
{
	struct fgi_bound bound = {0};

	while (fgi_queue_state(node) != FG_NODE_GRANTED) {
		if (!fgi_bound_passed(&bound, FGI_SPIN_UNMONITORED_NS)) {
			fg_pause();
			continue;
		}
		bound = (struct fgi_bound){0};
		if (fg_cas_relaxed(&node->state, FG_NODE_WAITING, FGI_NODE_PARKED) != FG_NODE_WAITING)
			continue;
		fg_thread.parks++;
		while (fg_load_relaxed(&node->state) == FGI_NODE_PARKED)
			fgi_futex_wait(&node->state, FGI_NODE_PARKED, CLOCK_MONOTONIC, NULL);
	}
}

/* Makes the waiter the head. The caller is critical until the very instruction, and no longer. */
static inline void fgi_node_grant(struct fg_queue_node *node)
{
	if (fgi_drop_xchg32(&node->state, FG_NODE_GRANTED) == FGI_NODE_PARKED)
		fgi_futex_wake(&node->state, 1);
}

/* Wakes a waiter that is to be the head soon. */
static inline void fgi_node_wake_ahead(struct fg_queue_node *node)
{
	if (fg_load_relaxed(&node->state) == FGI_NODE_PARKED &&
	    fg_cas_relaxed(&node->state, FGI_NODE_PARKED, FGI_NODE_AWAKE) == FGI_NODE_PARKED)
		fgi_futex_wake(&node->state, 1);
}

/* The head goes: returns who comes next, still to be granted, or NULL when that left the queue empty, which lowered
 * `held` as a grant does. */
static inline struct fg_queue_node *fgi_queue_retire(uint64_t *tail, struct fg_queue_node *node)
{
	struct fg_queue_node *next = fgi_node_next(node);

	if (next)
		return next;
	if (fgi_drop_cas64(tail, fgi_node_word(node), 0) == fgi_node_word(node))
		return NULL;
	return fgi_queue_await_link(node);
}

struct fg_lock;

/* For a lock whose waiters cannot leave: one with a deadline does not queue but tries, ever more seldom. */
static inline int fgi_poll(struct fg_lock *l, bool (*try)(struct fg_lock *), clockid_t clock,
			   const struct timespec *abs)
{
	struct fgi_spin_budget p = FGI_SPIN_BUDGET(clock, abs);
	struct fgi_bound bound = {0};
	uint32_t nap = 20000;

	while (!try(l)) {
		if (fgi_past_deadline(&p))
			return ETIMEDOUT;
		if (!fgi_bound_passed(&bound, FGI_SPIN_UNMONITORED_NS)) {
			fg_pause();
			continue;
		}
		fgi_nap(nap);
		if (nap < 1000000)
			nap *= 2;
	}
	return 0;
}

#endif
