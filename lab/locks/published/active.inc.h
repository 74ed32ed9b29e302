/* SPDX-License-Identifier: MIT */
/* A lock with an active set of four: the simplest competitor of the default lock. Ours, after the concurrency
 * restriction of the Malthusian lock (Dice, EuroSys 2017), which takes surplus waiters out of its queue. This one lets
 * no more of them in.
 *
 *   word    FREE                                                           -> HELD, -> PLACED
 *           HELD     by a thread that found the lock free                  the release -> FREE
 *           PLACED   by a thread that has waited, and has a place          the release leaves the place, -> FREE
 *   set     how many threads have a place in the active set; how many sleep for one; whether the head demands the
 *           lock; and for which process this holds
 *   tail    the MCS queue of the active waiters (locks/parts/mcs_queue.h): each spins on a cache line of its own
 *
 * Waiting policy: a thread that finds the lock held needs a place. If there is none it sleeps until one is left: it
 * is woken while others are before it. Only the head looks at the word. All active waiters offer their CPUs now and
 * then.
 * I1  The word alone decides.
 * I2  A thread counts itself in `set` and sleeps while `set` stays the same. Places are left by releases only, and
 *     each of these wakes a sleeper. One that finds the place taken again sleeps on: the release of a thread that has
 *     a place is still to come.
 * I3  No waiter but the head leaves the queue.
 * I4  After LEASE_NS the head demands the lock: then all but trylock queue. Sleepers are woken first come, first
 *     served, and the last place is theirs.
 * I5  Exact: windows, and the head's node.
 * Memory: 16 bytes; one node (64 bytes) a thread while it waits.
 *
 * A timed wait polls. An active waiter that is preempted holds up those behind it: on two contexts the lock is behind
 * glibc's. */
#include "locks/parts/mcs_queue.h"

struct fg_lock {
	uint32_t word;
	uint32_t set;
	uint64_t tail;
};

enum { FREE = 0, HELD = 1, PLACED = 2 };

#define ACTIVE 4u        /* with 8, simulated, a set on 8 CPUs waits for preempted members */
#define LEASE_NS 20000u  /* for so long others may pass the head */
#define HEAD_PAUSES 16u  /* between two looks of the head (flexguard-sosp25.inc.h), */
#define DEMAND_PAUSES 2u /* and once it demands the lock */
#define LOOKS_PER_YIELD 16u

#define PLACE 1u
#define PLACES 15u
#define SLEEPER (1u << 4)
#define SLEEPERS (0x7ffffu * SLEEPER)
#define DEMAND (1u << 23)
#define PROCESS (1u << 24)

/* Without what another process left there: the child of a fork has none of its parent's waiters. */
static inline uint32_t set_here(uint32_t set)
{
	uint32_t none = fg_load_relaxed(&fgi_forks) / 2 * PROCESS;

	return (set ^ none) < PROCESS ? set : none;
}

static inline bool take(struct fg_lock *l, uint32_t as)
{
	return fg_load_relaxed(&l->word) == FREE && fgi_take_cas32(&l->word, as) == FREE;
}

/* Sleeps until there is a place, and takes it. The last place is for those that have slept. One that is woken while
 * another takes the place sleeps on. */
static void take_place(struct fg_lock *l)
{
	uint32_t sleeper = 0, seen, set, next;
	bool free;

	for (;;) {
		seen = fg_load_relaxed(&l->set);
		set = set_here(seen);
		free = (set & PLACES) < (sleeper || !(set & SLEEPERS) ? ACTIVE : ACTIVE - 1);
		if (free)
			next = set + PLACE - ((set & SLEEPERS) ? sleeper : 0);
		else
			next = set + SLEEPER - sleeper;
		if (next != seen && fg_cas_relaxed(&l->set, seen, next) != seen)
			continue;
		if (free)
			return;
		sleeper = SLEEPER;
		fgi_park(&l->set, next, &FGI_NEVER);
	}
}

static void change(uint32_t *set, uint32_t clear, uint32_t add)
{
	for (uint32_t seen = fg_load_relaxed(set), found;; seen = found) {
		found = fg_cas_relaxed(set, seen, (set_here(seen) & ~clear) | add);
		if (found == seen)
			return;
	}
}

static void wait_as_head(struct fg_lock *l)
{
	uint64_t began = fgi_now_ns(CLOCK_MONOTONIC);
	bool demands = false;

	for (uint32_t looks = 1; !take(l, PLACED); looks++) {
		if (!demands && fgi_now_ns(CLOCK_MONOTONIC) - began > LEASE_NS) {
			change(&l->set, 0, DEMAND);
			demands = true;
		}
		if (looks % LOOKS_PER_YIELD == 0)
			fgi_spin_yield();
		fgi_spin_times(demands ? DEMAND_PAUSES : HEAD_PAUSES);
	}
	if (demands)
		change(&l->set, DEMAND, 0);
}

__attribute__((noinline)) static void wait_for(struct fg_lock *l)
{
	struct fg_queue_node *node;

	take_place(l);
	node = fgi_node_need(&l->tail);
	fgi_publish_node(node);
	fgi_enqueue(&l->tail, node, fgi_tail_mind_fork(&l->tail, NULL));
	for (uint32_t spins = 1; fgi_queue_state(node) == FG_NODE_WAITING; spins++) {
		fgi_spin_once();
		if (spins % FGI_SPINS_PER_LOOK == 0)
			fgi_spin_yield();
	}
	wait_as_head(l);
	fgi_queue_leave(&l->tail, node);
}

static inline bool fgi_trylock(struct fg_lock *l)
{
	return take(l, HELD);
}

static inline void fgi_lock(struct fg_lock *l)
{
	if (fg_unlikely(set_here(fg_load_relaxed(&l->set)) & DEMAND || !take(l, HELD)))
		wait_for(l);
}

static inline int fgi_timedlock(struct fg_lock *l, struct fgi_deadline until)
{
	return fgi_poll(l, until);
}

/* Leaves the place first: after the release the lock's memory may be gone. A waiter that is woken so early
 * spins. */
__attribute__((noinline)) static void release_placed(struct fg_lock *l)
{
	uint32_t seen = fg_load_relaxed(&l->set), set = set_here(seen), found;

	while ((found = fg_cas_relaxed(&l->set, seen, set - (set & PLACES ? PLACE : 0))) != seen) {
		seen = found;
		set = set_here(seen);
	}
	fgi_drop_store32(&l->word, FREE);
	if (set & SLEEPERS)
		fgi_futex_wake(&l->set, 1);
}

static inline void fgi_unlock(struct fg_lock *l)
{
	if (fg_unlikely(fg_load_relaxed(&l->word) == PLACED))
		release_placed(l);
	else
		fgi_drop_store32(&l->word, FREE);
}
