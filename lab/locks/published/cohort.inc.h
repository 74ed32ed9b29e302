/* SPDX-License-Identifier: MIT */
/* Lock cohorting, C-BO-MCS (Dice, Marathe, Shavit, PPoPP 2012; section 2.1.2): a global back-off lock, which stays
 * within a NUMA node for up to LIMIT hand-overs, and an MCS lock for each NUMA node.
 *
 *   word      0 free; HELD: a thread holds the global lock
 *   extended  0: never contended, no local locks yet; else the tails of the local locks, a cache line each
 *   holder    the owner's node in its local queue; NULL: the owner took the word alone
 *   in a node: has_word = the global lock comes with the grant, in_a_row = how often it was handed over locally
 *
 * The thread that has both locks is the owner. It hands the global lock to its local successor along with the local
 * lock, up to LIMIT times in a row. Then it releases both, the local lock first: its last write must be to the lock
 * itself, since the next owner may destroy the lock. Until a lock is contended for the first time, its word is all
 * there is to it; trylock never looks at anything else. If no object for the local locks is to be had (32,768 contended
 * locks at once), the lock stays a back-off lock.
 *
 * Waiting policy: spin, always: locally on the node, globally with exponential back-off. It collapses as soon as the
 * next waiter is off CPU.
 * I1  the word. I3  nodes and tails are type-stable. I4  locally in order of arrival, and LIMIT bounds a cohort's run;
 *     the back-off lock between the cohorts has no order. I5  exactly: windows for the word and the queue, the node's
 *     state between them; a local head counts as the next waiter.
 * Memory: 16 bytes, 512 more for a lock that was ever contended (8 tails; further NUMA nodes share them); one node (64
 * bytes) for each lock that a thread holds or waits for.
 * Deviations: the order of the two releases, the local locks made at the first contention, and the global back-off of 4
 * to 1,024 PAUSEs, which is ours (LiTL: 512 to 2^20). A timed wait polls without queueing. */
#define FGI_LOCK_HAS_DESTROY
#include "locks/parts/extended.h"
#include "locks/parts/mcs_queue.h"
#include "locks/parts/numa.h"

struct fg_lock {
	uint32_t word;
	uint32_t extended;
	uint64_t holder;
};

#define HELD 1u
#define COHORTS 8u /* ours: NUMA nodes beyond share them; what else is ours: docs/design/locks.md */
#define LIMIT 100u /* the authors' default, in the later version of the paper (TOPC 2015; docs/design/locks.md) */
#define SHORTEST_BACK_OFF 4u /* PAUSEs; both ours, as at the head */
#define LONGEST_BACK_OFF 1024u

struct cohorts {
	struct {
		uint64_t tail;
		uint64_t unused[7];
	} local[COHORTS];
};
_Static_assert(sizeof(struct cohorts) == FGI_EXTENDED_LARGE_BYTES, "one cache line for each");

struct cohort_node {
	uint32_t in_a_row, has_word;
} FGI_IN_NODE;
FGI_NODE_PRIVATE(struct cohort_node);

/* The global lock. acquire: pairs with the release of the word in fgi_unlock. */
static inline bool take_word(struct fg_lock *l)
{
	return fg_load_relaxed(&l->word) == 0 && fgi_take_cas32(&l->word, HELD) == 0;
}

static void back_off_for_word(struct fg_lock *l)
{
	uint32_t length = SHORTEST_BACK_OFF;

	while (!take_word(l)) {
		fgi_spin_times(length);
		length = length < LONGEST_BACK_OFF ? 2 * length : length;
	}
}

static void wait_in_cohort(struct fg_lock *l, struct cohorts *all)
{
	uint64_t *tail = &all->local[fgi_numa_node() % COHORTS].tail;
	struct fg_queue_node *node = fgi_node_need(tail);

	*node_private(node) = (struct cohort_node){0};
	fgi_publish_node(node);
	fgi_enqueue(tail, node, fgi_tail_mind_fork(tail, &l->holder));
	fgi_node_spin(node);
	if (node_private(node)->has_word)
		fgi_held_raise();
	else
		back_off_for_word(l);
	fgi_publish_node(NULL);
	fg_store_relaxed(&node->state, FG_NODE_OWNED);
	fg_store_relaxed(&l->holder, fgi_node_word(node));
}

__attribute__((noinline)) static void compete(struct fg_lock *l)
{
	struct cohorts *all = fgi_extended_attach(&l->extended, FGI_EXTENDED_LARGE);

	if (all) {
		wait_in_cohort(l, all);
		return;
	}
	back_off_for_word(l);
	fg_store_relaxed(&l->holder, 0);
}

static inline bool fgi_trylock(struct fg_lock *l)
{
	if (!take_word(l))
		return false;
	fg_store_relaxed(&l->holder, 0);
	return true;
}

static inline void fgi_lock(struct fg_lock *l)
{
	if (fg_load_relaxed(&l->extended) || !fgi_trylock(l))
		compete(l);
}

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	return fgi_poll(l, clock, abs);
}

/* Returns whether the global lock went with the local one. */
__attribute__((noinline)) static bool pass_local(struct fg_lock *l)
{
	struct fg_queue_node *node = fgi_node_at(fg_load_relaxed(&l->holder)), *next = fgi_node_next(node);
	uint64_t *tail = (uint64_t *)(uintptr_t)node->tail;
	uint32_t in_a_row = node_private(node)->in_a_row;
	bool both = next && in_a_row < LIMIT;

	if (!both) {
		fgi_held_raise(); /* for the local lock; this thread still has the global one */
		fgi_tail_mind_fork(tail, &l->holder);
		next = fgi_queue_retire(tail, node);
	}
	if (next) {
		*node_private(next) = (struct cohort_node){.in_a_row = both ? in_a_row + 1 : 0, .has_word = both};
		fgi_drop_store32(&next->state, FG_NODE_GRANTED);
	}
	fgi_node_put(node);
	return both;
}

static inline void fgi_unlock(struct fg_lock *l)
{
	if (!fg_load_relaxed(&l->holder) || !pass_local(l))
		fgi_drop_store32(&l->word, 0);
}

static inline void fgi_lock_destroy(struct fg_lock *l)
{
	fgi_extended_detach(&l->extended, FGI_EXTENDED_LARGE);
}
