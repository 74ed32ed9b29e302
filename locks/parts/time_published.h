/* SPDX-License-Identifier: MIT */
/* What the time-published locks share (He, Scherer and Scott 2005; section 2.2): waiters publish the time in their
 * queue nodes again and again, the holder once when it takes the lock. An old time stamp means, probably, that its
 * thread is off CPU:
 *
 *   whose stamp           older than     then
 *   a waiter's            TP_STALE_NS    it is taken out of the queue instead of being given the lock, and queues anew
 *   the holder's          TP_SECTION_NS  whoever has waited for TP_PATIENCE_NS yields its CPU, and has patience again
 *
 * Both are heuristics, as the paper says: a wrong guess costs a waiter its place, or a yield, never correctness. The
 * clock is CLOCK_MONOTONIC, which is one for all CPUs. */
#ifndef FGI_LOCKS_TIME_PUBLISHED_H
#define FGI_LOCKS_TIME_PUBLISHED_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "runtime/arch/arch.h"
#include "runtime/node.h"
#include "runtime/spin_budget.h"
#include "runtime/thread.h"

/* Microseconds in the source of these numbers (docs/design/locks.md). How long a running waiter may go without
 * publishing: it does so in each turn, of about 0.1 us. How long a section lasts at most, unless its thread is off CPU:
 * longer than most time slices, so yielding is for the worst cases. And a waiter's patience. */
#define TP_STALE_NS 10000
#define TP_SECTION_NS 10000000
#define TP_PATIENCE_NS 50000

struct fg_lock {
	uint64_t tail; /* the last node of the queue; NULL: free */
	uint64_t
		holder; /* the holder's node, or a former holder's: nodes stay nodes, so the stamp may always be read */
};

struct tp_node {
	uint64_t stamp;       /* when its thread was last seen to run: CLOCK_MONOTONIC */
	uint64_t pred;        /* clh-tp: the node before it, which its thread watches */
	uint32_t got_another; /* clh-tp: as in clh.c */
} FGI_IN_NODE;
FGI_NODE_PRIVATE(struct tp_node);

/* relaxed: a time stamp carries no other data. */
static inline void tp_publish(struct fg_queue_node *node, uint64_t now)
{
	fg_store_relaxed(&node_private(node)->stamp, now);
}

/* A stamp from after `now` was read is fresh. */
static inline bool tp_stale(struct fg_queue_node *node, uint64_t now, int64_t bound)
{
	return (int64_t)(now - fg_load_relaxed(&node_private(node)->stamp)) > bound;
}

static inline struct fg_queue_node *tp_holder(struct fg_lock *l)
{
	return (struct fg_queue_node *)(uintptr_t)fg_load_relaxed(&l->holder);
}

/* By the owner of the lock alone: itself, or the one it gives the lock to. */
static inline void tp_set_holder(struct fg_lock *l, struct fg_queue_node *node)
{
	fg_store_relaxed(&l->holder, (uint64_t)(uintptr_t)node);
}

/* One turn of waiting with `node`. Returns the time. `since`: when its patience began, 0 at first. */
static inline uint64_t tp_turn(struct fg_lock *l, struct fg_queue_node *node, uint64_t *since)
{
	struct fg_queue_node *holder = tp_holder(l);
	uint64_t now = fgi_now_ns(CLOCK_MONOTONIC);

	tp_publish(node, now);
	fg_thread.spins++;
	if (*since == 0)
		*since = now;
	if (now - *since <= TP_PATIENCE_NS) {
		fg_pause();
	} else {
		if (holder && tp_stale(holder, now, TP_SECTION_NS))
			sched_yield();
		*since = 0;
	}
	return now;
}

#endif
