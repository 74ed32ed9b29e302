/* SPDX-License-Identifier: MIT */
/* Spin-then-park in an MCS queue that waiters do not leave (section 2.2): what the locks with such a queue share.
 *
 * A waiter spins on its own node for about the price of a park and a wake-up, then sleeps on it.
 *
 *   state     the node's thread            what moves the state on
 *   WAITING   spins                        its thread parks: -> PARKED;  its predecessor: -> GRANTED
 *   PARKED    sleeps on the state          its predecessor: -> GRANTED;  a thread that wakes it early: -> AWAKE
 *   AWAKE     spins, and sleeps no more    its predecessor: -> GRANTED
 *   GRANTED   is the head of the queue     its thread
 *
 * I2  A thread sleeps only while its state is PARKED, and the thread that ends that state wakes it.
 * I3  Nodes are type-stable; after the grant only a successor writes to the node, once, its link.
 * I5  A thread is critical from the grant on; the grant lowers the granting thread's `held` in its window. */
#ifndef FGI_PARTS_SPIN_THEN_PARK_H
#define FGI_PARTS_SPIN_THEN_PARK_H

#include "locks/parts/mcs_queue.h"

/* States of a node besides those of the ABI. Neither the monitor nor the fork handler treats them differently from
 * WAITING. */
enum { FGI_NODE_PARKED = 16, FGI_NODE_AWAKE = 17 };

__attribute__((noinline)) static void fgi_node_wait_slow(struct fg_queue_node *node)
{
	struct fgi_spin_budget p = FGI_SPIN_BUDGET(FGI_NEVER);

	while (fgi_queue_state(node) != FG_NODE_GRANTED) {
		if (!fgi_spun_for(&p, FGI_SPIN_UNMONITORED_NS)) {
			fgi_spin_once();
			continue;
		}
		fgi_spin_budget_renew(&p);
		if (fg_cas_relaxed(&node->state, FG_NODE_WAITING, FGI_NODE_PARKED) != FG_NODE_WAITING)
			continue;
		while (fg_load_relaxed(&node->state) == FGI_NODE_PARKED)
			fgi_park(&node->state, FGI_NODE_PARKED, &FGI_NEVER);
	}
}

/* Waits until the node is granted. */
static inline void fgi_node_wait(struct fg_queue_node *node)
{
	if (fgi_queue_state(node) != FG_NODE_GRANTED)
		fgi_node_wait_slow(node);
}

/* Makes the waiter the head. The caller is critical until this instruction and not after it. */
static inline void fgi_node_grant(struct fg_queue_node *node)
{
	if (fgi_drop_xchg32(&node->state, FG_NODE_GRANTED) == FGI_NODE_PARKED)
		fgi_futex_wake(&node->state, 1);
}

/* Wakes a waiter that is to be the head soon. */
static inline void fgi_node_wake_early(struct fg_queue_node *node)
{
	if (fg_load_relaxed(&node->state) == FGI_NODE_PARKED &&
	    fg_cas_relaxed(&node->state, FGI_NODE_PARKED, FGI_NODE_AWAKE) == FGI_NODE_PARKED)
		fgi_futex_wake(&node->state, 1);
}

#endif
