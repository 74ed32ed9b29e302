/* SPDX-License-Identifier: MIT */
/* A combining lock (CC-Synch: Fatourou and Kallimanis, PPoPP'12) on the monitor: delegation, as section 6 of the
 * FlexGuard paper proposes.
 *
 * A thread joins an MCS queue with its section in its node. The head of the queue, the combiner, executes its own
 * section and then those of the threads behind it. So the data that the lock protects stay in one CPU's cache.
 *
 *   tail, holder   locks/parts/mcs_lock.h
 *   in a node      section: the function, 0 for a thread that takes the lock itself; argument
 *
 *   state      the node's thread          what moves the state on
 *   WAITING    spins                      its thread: -> PARKED;  the combiner: -> EXECUTED, or GRANTED
 *   PARKED     sleeps on the state        the combiner: -> EXECUTED, or GRANTED, and wakes it
 *   EXECUTED   returns                    its thread: the node is free
 *   GRANTED    is the combiner            its thread
 *
 * Waiting policy: spin while no critical section is preempted, otherwise sleep: a preempted combiner is waited for
 * asleep. A combiner that has executed FGB_MOST sections for others grants the next waiter. A sleeper learns that its
 * section was executed after the combiner has left, so these wake-ups are part of no section.
 *
 * I1  By the exchange of the tail and the grant there is one combiner, and it alone executes sections.
 * I2  A thread sleeps only while its state is PARKED, and the combiner that ends that state wakes it.
 * I3  The combiner says EXECUTED when it has seen the node's link, or emptied the queue: its last access to the node.
 * I4  Strictly in order of arrival.
 * I5  As locks/parts/mcs_lock.h, exactly: a combiner is critical from the grant on, and a thread that has not linked
 *     itself.
 * Memory: 16 bytes; one node (64 bytes) a thread. A timed wait polls (fgi_poll). */
#define FGB_LOCK_EXECUTES
#include "locks/parts/mcs_lock.h"
#include "locks/parts/spin_then_park.h"
#include "sections/must_sleep.h"
#include "sections/section.h"

/* The checker has 1. */
#ifndef FGB_MOST
#define FGB_MOST 64u
#endif

enum { EXECUTED = 32 }; /* a state of a node */

struct combining_node {
	fgb_any_section *section;
	void *argument;
	struct fg_queue_node *late; /* the next of those that are to be told later */
} FGI_IN_NODE;
FGI_NODE_PRIVATE(struct combining_node);

static inline struct fg_queue_node *node_for(struct fg_lock *l, fgb_any_section *section, void *argument)
{
	struct fg_queue_node *node = fgi_node_need(&l->tail);

	*node_private(node) = (struct combining_node){section, argument, NULL};
	return node;
}

static struct fg_queue_node *new_node(struct fg_lock *l)
{
	return node_for(l, NULL, NULL);
}

__attribute__((noinline)) static void await(struct fg_queue_node *node)
{
	struct fgi_spin_budget p = FGI_SPIN_BUDGET(FGI_NEVER);

	while (fgi_queue_state(node) == FG_NODE_WAITING) {
		if (!must_sleep(&p)) {
			fgi_spin_once();
			continue;
		}
		if (fg_cas_relaxed(&node->state, FG_NODE_WAITING, FGI_NODE_PARKED) != FG_NODE_WAITING)
			return;
		while (fgi_queue_state(node) == FGI_NODE_PARKED)
			fgi_park(&node->state, FGI_NODE_PARKED, &FGI_NEVER);
	}
}

/* release: pairs with fgi_queue_state; the thread sees what its section did. */
static inline void say_executed(struct fg_queue_node *node)
{
	if (fg_xchg_release(&node->state, EXECUTED) == FGI_NODE_PARKED)
		fgi_futex_wake(&node->state, 1);
}

/* The calling thread is the combiner, and its own section is over. Executes those of others, and leaves. */
static void combine(struct fg_lock *l)
{
	struct fg_queue_node *mine = fgi_mcs_mine(l), *node = mine, *late = NULL, *next;

	for (uint32_t served = 0;; served++) {
		next = fgi_queue_retire(&l->tail, node);
		if (node != mine && fg_load_relaxed(&node->state) == FGI_NODE_PARKED) {
			node_private(node)->late = late;
			late = node;
		} else if (node != mine) {
			say_executed(node);
		}
		if (!next)
			break;
		if (!node_private(next)->section || served == FGB_MOST) {
			fgi_node_grant(next);
			break;
		}
		node_private(next)->section(node_private(next)->argument);
		node = next;
	}
	for (; late; late = next) {
		next = node_private(late)->late;
		say_executed(late);
	}
	fgi_node_put(mine);
}

static inline void fgb_execute(struct fg_lock *l, fgb_any_section *section, void *argument)
{
	struct fg_queue_node *node = node_for(l, section, argument);

	fgi_publish_node(node);
	fgi_enqueue(&l->tail, node, fgi_mcs_mind_fork(l));
	await(node);
	if (fg_load_relaxed(&node->state) == EXECUTED) {
		fgi_publish_node(NULL);
		fgi_node_put(node);
		return;
	}
	fgi_held_raise();
	fgi_publish_node(NULL);
	fgi_mcs_own(l, node);
	section(argument);
	combine(l);
}

static inline void fgi_lock(struct fg_lock *l)
{
	fgi_mcs_lock(l, new_node(l), await);
}

static inline bool fgi_trylock(struct fg_lock *l)
{
	return fgi_mcs_trylock(l, new_node);
}

static inline int fgi_timedlock(struct fg_lock *l, struct fgi_deadline until)
{
	return fgi_poll(l, until);
}

static inline void fgi_unlock(struct fg_lock *l)
{
	combine(l);
}
