/* SPDX-License-Identifier: MIT */
/* What the time-published locks share (He, Scherer and Scott 2005; section 2.2). A waiter publishes the time in its
 * queue node in every spin; the holder publishes it once, when it takes the lock. An old time stamp means that the
 * thread is probably off CPU:
 *
 *   whose stamp           older than       consequence
 *   a waiter's            TP_STALE_NS      the waiter is taken out of the queue and queues anew
 *   the holder's          TP_SECTION_NS    a waiter that has spun for TP_YIELD_NS yields its CPU, then spins anew
 *
 * Both are heuristics, as the paper says: a wrong guess costs a waiter its place or a yield, never correctness. The
 * clock is CLOCK_MONOTONIC, which is the same on all CPUs.
 *
 * Deviation from LiTL, whose versions the FlexGuard paper measured: a waiter yields while it is in state WAITING;
 * LiTL's marks itself TIMED_OUT first. So here a waiter that yields for long may be skipped as if it had been
 * preempted. */
#ifndef FGI_PARTS_TIME_PUBLISHED_H
#define FGI_PARTS_TIME_PUBLISHED_H

#include "locks/parts/mcs_queue.h"

/* LiTL's numbers (docs/design/locks.md): UPDATE_DELAY, how long a running waiter may go without publishing, of which a
 * spin takes some 0.1 us; MAX_CS_TIME, how long a section lasts at most unless its thread is off CPU, longer than most
 * time slices, so that yielding is for the worst cases; and after how long a waiter yields. */
#define TP_STALE_NS 10000
#define TP_SECTION_NS 10000000
#define TP_YIELD_NS 50000

struct fg_lock {
	uint64_t tail;   /* the last node of the queue; NULL: free */
	uint64_t holder; /* the holder's node or a former holder's; its stamp may be read, since nodes stay nodes */
};

struct tp_node {
	uint64_t stamp;       /* when its thread was last seen to run: CLOCK_MONOTONIC */
	uint64_t pred;        /* clh-tp: the node before it, which its thread watches */
	uint32_t got_another; /* clh-tp: as in clh.inc.h */
} FGI_IN_NODE;
FGI_NODE_PRIVATE(struct tp_node);

/* The first thing that each operation does (locks/parts/mcs_queue.h, Forks). Returns the tag of the tail. */
static inline uint64_t tp_mind_fork(struct fg_lock *l)
{
	return fgi_tail_mind_fork(&l->tail, &l->holder);
}

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
	return fgi_node_at(fg_load_relaxed(&l->holder));
}

/* Only the owner of the lock calls this: for itself, or for the thread that it gives the lock to. */
static inline void tp_set_holder(struct fg_lock *l, struct fg_queue_node *node)
{
	fg_store_relaxed(&l->holder, fgi_node_word(node));
}

/* One spin of waiting with `node`. Returns the time. `since`: when the waiter began to spin or last yielded; 0 at
 * first. */
static inline uint64_t tp_spin(struct fg_lock *l, struct fg_queue_node *node, uint64_t *since)
{
	struct fg_queue_node *holder = tp_holder(l);
	uint64_t now = fgi_now_ns(CLOCK_MONOTONIC);

	tp_publish(node, now);
	if (*since == 0)
		*since = now;
	if (now - *since <= TP_YIELD_NS) {
		fgi_spin_once();
	} else {
		if (holder && tp_stale(holder, now, TP_SECTION_NS))
			fgi_spin_yield();
		*since = 0;
	}
	return now;
}

#endif
