/* SPDX-License-Identifier: MIT */
/* The BPF Hybrid Lock (Laforet, Lozi, Lawall, SOSP 2023 poster): an abortable MCS lock that becomes a futex lock when a
 * critical section is preempted, and an MCS lock again when none is. The predecessor of FlexGuard.
 *
 *   word              meaning                                      left by
 *   0                 free, of type MCS
 *   tid               held, of type MCS                            its owner
 *   FUTEX             free, of type futex                          the thread that takes it
 *   FUTEX | tid       held, of type futex                          its owner: -> 0 if all is quiet, else -> FUTEX
 *   ... | SLEEPERS    held, and a thread may sleep on the word     its owner, which wakes one
 *
 * To type futex: the first waiter that sees a preempted critical section sets FUTEX, and all waiters leave the queue at
 * once. To type MCS: the owner that releases the lock while no thread sleeps and no critical section is preempted.
 * After a change of type an arriving thread must wait for the holder of the previous type; both types take the same
 * word, so that wait is the wait for the word, and two changes in a row need no further care.
 *
 * Waiting policy: type MCS, spin in the queue (locks/parts/mcs_queue.h), the head on the word; type futex, sleep at
 * once. With a dead or absent monitor the bounds of runtime/spin_budget.h change the type.
 * I1  The word alone. I2  A waiter sleeps only while the word has SLEEPERS; the release that clears it wakes one, and a
 *     thread that has slept takes the word with SLEEPERS. I3  locks/parts/mcs_queue.h. I4  The queue and the futex are
 *     in order of arrival; an arriving thread may take the free word before them. I5  Exactly: the owner by intent, the
 *     head by its node's state.
 * Memory: 16 bytes; one node (64 bytes) a thread, and up to 8 more in queues that it left.
 * Deviations from the poster: one word, where it has two locks and a state of the transition. Any preempted holder or
 * next waiter on the machine changes the type, seen in one count; the poster's kernel half writes into the lock whose
 * own holder was preempted, and here the shared page is read-only for every process. When the lock goes back to MCS the
 * poster leaves open. The poster's switching condition variable is not part of a lock file (interpose/). */
#define FGI_LOCK_NAMES_OWNER
#include "locks/parts/mcs_queue.h"

struct fg_lock {
	uint32_t word;
	uint32_t unused;
	uint64_t queue;
};

#define SLEEPERS 0x80000000u
#define FUTEX 0x40000000u
_Static_assert(((SLEEPERS | FUTEX) & FG_OWNER_MASK) == 0, "the flags must not be the owner's bits");

/* Takes the word, which was found free, with `flags`. acquire: pairs with the release in fgi_unlock. */
static inline bool take(struct fg_lock *l, uint32_t found, uint32_t flags)
{
	uint32_t self = fgi_self();

	fgi_intent_set(&l->word);
	if (fg_cas_acquire(&l->word, found, self | flags) == found)
		return true;
	fgi_intent_clear(&l->word);
	return false;
}

static inline bool fgi_trylock(struct fg_lock *l)
{
	uint32_t found = fg_load_relaxed(&l->word);

	return !(found & FG_OWNER_MASK) && take(l, found, found);
}

static inline bool is_futex(const struct fg_lock *l)
{
	return fg_load_relaxed(&l->word) & FUTEX;
}

/* A free lock stays as it is: the next thread takes it. */
static void make_futex(struct fg_lock *l)
{
	uint32_t word = fg_load_relaxed(&l->word), found;

	while ((word & FG_OWNER_MASK) && !(word & FUTEX)) {
		found = fg_cas_relaxed(&l->word, word, word | FUTEX);
		if (found == word)
			return;
		word = found;
	}
}

/* Sleeps until the lock is free, and takes it. */
static int wait_asleep(struct fg_lock *l, const struct fgi_spin_budget *p)
{
	uint32_t flags = 0, word;
	int woken = 0;

	for (;;) {
		word = fg_load_relaxed(&l->word);
		if (!(word & FG_OWNER_MASK)) {
			if (take(l, word, word | flags))
				return 0;
			continue;
		}
		if (woken == ETIMEDOUT)
			return ETIMEDOUT;
		if (!(word & SLEEPERS) && fg_cas_relaxed(&l->word, word, word | SLEEPERS) != word)
			continue;
		woken = fgi_park(&l->word, word | SLEEPERS, p);
		flags = SLEEPERS;
	}
}

/* Spins in the queue. Returns 0 with the lock, ETIMEDOUT, or EAGAIN: the lock is to be waited for asleep. */
static int wait_spinning(struct fg_lock *l, struct fgi_spin_budget *p)
{
	struct fg_queue_node *node = fgi_must_park(p) ? NULL : fgi_queue_join(&l->queue);
	int result = EAGAIN;

	while (node && result == EAGAIN) {
		if (fgi_queue_state(node) == FG_NODE_GRANTED && fgi_trylock(l))
			result = 0;
		else if (fgi_must_park(p) && fgi_past_deadline(p))
			result = ETIMEDOUT;
		else if (p->out || fgi_preempted_cs() || (p->spins % FGI_SPINS_PER_LOOK == 0 && is_futex(l)))
			break;
		else
			fgi_spin_once();
	}
	if (node)
		fgi_queue_leave(&l->queue, node);
	return result;
}

__attribute__((noinline)) static int wait_for_lock(struct fg_lock *l, struct fgi_spin_budget *p)
{
	if (!is_futex(l)) {
		int result = wait_spinning(l, p);

		if (result != EAGAIN)
			return result;
		make_futex(l);
	}
	return wait_asleep(l, p);
}

static inline void fgi_lock(struct fg_lock *l)
{
	if (!fg_likely(fgi_trylock(l)))
		wait_for_lock(l, &FGI_NO_DEADLINE);
}

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	return fgi_trylock(l) ? 0 : wait_for_lock(l, &FGI_SPIN_BUDGET(clock, abs));
}

static inline void fgi_unlock(struct fg_lock *l)
{
	uint32_t word = fg_load_relaxed(&l->word), found;

	fgi_intent_restore(&l->word);
	for (;; word = found) {
		bool quiet = !(word & SLEEPERS) && !fgi_preempted_cs();

		found = fg_cas_release(&l->word, word, quiet ? 0 : word & FUTEX);
		if (fg_likely(found == word))
			break;
	}
	fgi_intent_clear(&l->word);
	if (fg_unlikely(word & SLEEPERS))
		fgi_futex_wake(&l->word, 1);
}
