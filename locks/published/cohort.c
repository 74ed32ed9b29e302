/* SPDX-License-Identifier: MIT */
/* Lock cohorting, C-BO-MCS (Dice, Marathe, Shavit, PPoPP 2012; section 2.1.2): a global back-off lock that stays within
 * a NUMA node for up to 100 hand-overs, and an MCS lock for each NUMA node.
 *
 *   word      0 free, HELD: a thread holds the global lock, or its cohort does for a moment
 *   extended  0: never contended, no local locks yet; else the tails of the local locks, a cache line each
 *   holder    the owner's node in its local queue; NULL: it took the word alone
 *
 *   in a node: has_word = the global lock comes with the grant, in_a_row = how often it has been handed over locally
 *
 * The thread that has both locks is the owner. It hands the global lock to its local successor along with the local
 * one, up to LIMIT times in a row; then it releases both, the local one first: what it does last is to write the lock
 * itself, so whoever gets the lock next may destroy it.
 * Until a lock is contended for the first time its word is all there is to it; it is all that trylock looks at. Where
 * no object is to be had (32,768 contended locks at once), it stays a back-off lock.
 * Waiting policy: spin, always: locally on the node, globally with exponential back-off. It collapses as soon as a
 * waiter that is the next is off CPU.
 * I1  the word. I3  nodes and tails are type-stable. I4  locally in order of arrival, and LIMIT bounds a cohort's run;
 *     the back-off lock between the cohorts is in no order. I5  exactly: windows for the word and the queue, the node's
 *     state between them; a local head counts as the next waiter.
 * Memory: 16 bytes, 512 more for a lock that was ever contended (8 tails; NUMA nodes beyond share them); one node (64
 * bytes) for each lock that a thread holds or waits for. A timed wait polls without queueing. */
#define FGI_LOCK_HAS_DESTROY
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "locks/parts/extended.h"
#include "locks/parts/numa.h"
#include "locks/parts/spin_then_park.h"

struct fg_lock {
	uint32_t word;
	uint32_t extended;
	struct fg_queue_node *holder;
};

#define HELD 1u
#define COHORTS 8u
#define LIMIT 100u /* the authors' default, in the later version of the paper (docs/design/locks.md) */
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
	for (uint32_t length = 4; !take_word(l); length = length < LONGEST_BACK_OFF ? 2 * length : length) {
		fg_thread.spins += length;
		for (uint32_t i = 0; i < length; i++)
			fg_pause();
	}
}

static void wait_in_cohort(struct fg_lock *l, struct cohorts *all)
{
	uint64_t *tail = &all->local[fgi_numa_node() % COHORTS].tail;
	struct fg_queue_node *node = fgi_node_need(tail);

	*node_private(node) = (struct cohort_node){0};
	fgi_publish_node(node);
	fgi_enqueue(tail, node);
	while (fgi_queue_state(node) == FG_NODE_WAITING) {
		fg_thread.spins++;
		fg_pause();
	}
	if (node_private(node)->has_word)
		fgi_held_raise();
	else
		back_off_for_word(l);
	fgi_publish_node(NULL);
	fg_store_relaxed(&node->state, FG_NODE_OWNED);
	l->holder = node;
}

__attribute__((noinline)) static void compete(struct fg_lock *l)
{
	struct cohorts *all = fgi_extended_attach(&l->extended, FGI_EXTENDED_LARGE);

	if (all) {
		wait_in_cohort(l, all);
		return;
	}
	back_off_for_word(l);
	l->holder = NULL;
}

static inline bool fgi_trylock(struct fg_lock *l)
{
	if (!take_word(l))
		return false;
	l->holder = NULL;
	return true;
}

static inline void fgi_lock(struct fg_lock *l)
{
	if (fg_load_relaxed(&l->extended) || !fgi_trylock(l))
		compete(l);
}

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	return fgi_poll(l, fgi_trylock, clock, abs);
}

/* Returns whether the global lock went with the local one. */
__attribute__((noinline)) static bool pass_local(struct fg_queue_node *node)
{
	struct fg_queue_node *next = fgi_node_next(node);
	bool both = next && node_private(node)->in_a_row < LIMIT;

	if (!both) {
		fgi_held_raise(); /* for the local lock, the global one is still ours */
		next = fgi_queue_retire((uint64_t *)(uintptr_t)node->tail, node);
	}
	if (next) {
		node_private(next)->in_a_row = both ? node_private(node)->in_a_row + 1 : 0;
		node_private(next)->has_word = both;
		fgi_drop_store32(&next->state, FG_NODE_GRANTED);
	}
	fgi_node_put(node);
	return both;
}

static inline void fgi_unlock(struct fg_lock *l)
{
	if (!l->holder || !pass_local(l->holder))
		fgi_drop_store32(&l->word, 0);
}

static inline void fgi_lock_destroy(struct fg_lock *l)
{
	fgi_extended_detach(&l->extended, FGI_EXTENDED_LARGE);
}
