/* SPDX-License-Identifier: MIT */
/* locks/published/flexguard-sosp25.inc.h with the exit from the queue that section 3.2.1 tries and rejects: while the
 * mode is blocking, the head that leaves sleeps until its successor has linked itself (line 17 spins there).
 *
 * It sleeps on the word that the published lock leaves unused:
 *   0   no thread sleeps for a link
 *   1   the head sleeps for its successor's link, or did so
 *
 * I2  Each thread that has linked itself exchanges the word for 0, and wakes the head if it was 1. The head exchanges
 *     it for 1 before its last look at the link. So either that look finds the link, or the exchange of the successor
 *     finds 1. A queue has one head, and no other thread sleeps on this word.
 * All else, I1, I3 to I5, the windows and memory, is as in that file. */
#include "lock/lock.h"
#include "runtime/node.h"

/* What the head does between two looks at the link. locks/parts/mcs_queue.h spins there by fgi_spin_once, and in
 * fgi_node_spin, which this lock does not call; the name stands for this function in that file alone. */
static inline void await_link(const struct fg_queue_node *node);
#define fgi_spin_once() await_link(node)
#include "locks/parts/mcs_queue.h"
#undef fgi_spin_once

static inline struct fg_queue_node *join_and_wake(uint64_t *queue);
#define fgi_queue_join(queue) join_and_wake(queue)
#include "locks/published/flexguard-sosp25.inc.h"
#undef fgi_queue_join

static inline void await_link(const struct fg_queue_node *node)
{
	struct fg_lock *l = (struct fg_lock *)(uintptr_t)(node->tail - offsetof(struct fg_lock, queue));

	if (!fgi_preempted_cs()) {
		fgi_spin_once();
		return;
	}
	fg_xchg_acq_rel(&l->unused, 1); /* pairs with the exchange of join_and_wake */
	if (!fgi_node_next(node))
		fgi_park(&l->unused, 1, &FGI_NEVER);
}

static inline struct fg_queue_node *join_and_wake(uint64_t *queue)
{
	struct fg_lock *l = (struct fg_lock *)((uintptr_t)queue - offsetof(struct fg_lock, queue));
	struct fg_queue_node *node = fgi_queue_join(queue);

	if (fg_unlikely(fg_xchg_acq_rel(&l->unused, 0) == 1)) /* pairs with the exchange of await_link */
		fgi_futex_wake(&l->unused, 1);
	return node;
}
