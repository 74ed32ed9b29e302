/* SPDX-License-Identifier: MIT */
/* The MCS queue lock (Mellor-Crummey and Scott 1991; section 2.1.2). locks/parts/mcs_lock.h has its words, its
 * invariants and its memory.
 *
 * Waiting policy: spin, always, each waiter on its own node; strictly first come, first served (I4). So it collapses as
 * soon as one waiter in the queue is off CPU. */
#include "locks/parts/mcs_lock.h"

static inline struct fg_queue_node *new_node(struct fg_lock *l)
{
	return fgi_node_need(&l->tail);
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

static inline void fgi_unlock(struct fg_lock *l)
{
	struct fg_queue_node *node = fgi_mcs_mine(l), *next = fgi_queue_retire(&l->tail, node);

	if (next)
		fgi_drop_store32(&next->state, FG_NODE_GRANTED);
	fgi_node_put(node);
}
