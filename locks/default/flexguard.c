/* SPDX-License-Identifier: MIT */
/* The default lock. FlexGuard's question (section 3: is a critical section preempted?) decides when a waiter gives its
 * CPU away; two more, that the paper does not ask, decide the rest: does a hand-over pay, and who is to be awake at
 * all? docs/design/default-lock.md has the reasons, the state tables and the proofs.
 *
 *   word            meaning                                           left by
 *   0               free                                              a CAS -> tid by whoever comes
 *   tid             held                                              the release: AND with the flags
 *   tid | DEMAND    held; the alpha has waited for a lease, or has    the release -> DEMAND
 *                   just got one: then it is the owner
 *   DEMAND          free, reserved for that thread, the others queue  its CAS -> tid; if it stays away, an alpha's
 *   ... | WAKE      somebody sleeps who is to be woken on release     the release; then the next owner
 *
 * Of those who wait, one watches: the alpha, which has the seat (locks/default/room.h). The others are parked. How
 * the alpha watches, and whether those who come may take the lock beside it, the ledger says
 * (locks/default/ledger.h).
 *
 * I1  The word alone decides who owns the lock.
 * I2  The alpha sleeps only on a word with WAKE, that it has set before a membarrier: so the release, which is no
 *     locked instruction (runtime/arch/x86_64/asymmetric.h), sees it. Where there is no membarrier it naps instead.
 *     (Its sleep has a bound all the same: who translates x86 code for another machine may make three instructions of
 *     that one.) For the parked see locks/default/room.h. After the release nobody touches the lock's memory: a woken
 *     futex address is not read.
 * I4  An alpha that has waited for a lease demands the lock: nobody else takes it after the section that runs, but,
 *     for one section, the owner for whom it was still reserved. Those who are parked become the alpha in the order in
 *     which they came, or knock. But an alpha may be stopped, by a debugger or a signal handler that waits for others,
 *     perhaps for this lock: so a free lock that nobody takes for as long as a thread is parked is that thread's.
 * I5  By published intent (runtime/thread.h), exactly: the instruction that takes or releases the word is what tells.
 * I7  What the monitor says only makes the alpha sleep earlier. */
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "locks/default/ledger.h"
#include "locks/default/room.h"
#include "locks/default/tune.h"
#include "locks/lock.h"
#include "runtime/arch/arch.h"
#include "runtime/futex.h"
#include "runtime/membarrier.h"
#include "runtime/spin_budget.h"
#include "runtime/thread.h"

struct fg_lock {
	uint32_t word;
	uint32_t ops; /* acquisitions; only the owner writes it */
	struct fgi_room room;
};

#define WAKE 0x80000000u /* the highest bit: what fgi_asymmetric_release reports */
#define DEMAND 0x40000000u
_Static_assert(((WAKE | DEMAND) & FG_OWNER_MASK) == 0, "the owner's bits are the owner's");

#define NEAR_NS 300u    /* how often the alpha looks while nothing moves: some hand-overs of a cache line */
#define FAR_NS 10000u   /* how often at most while the owner is at work: each look costs it a cache miss */
#define CLOSE_NS 15000u /* how long the alpha watches before it believes that the owner stays, and naps */
#define LONGEST_TURN_NS 16000000u
#define LONGEST_SLEEP_NS 1000000000u
#define BLIND_NAP_NS 1000000u
#define FIRST_PAUSES 2u
#define LAST_PAUSES 16u
#define KEPT_SECTIONS 64u /* in so many the displaced owner has come by and found the lock reserved, if it ever comes */
#define VISIT_EVERY 16u

/* What a thread remembers of its locks, in its thread block. */
struct memory {
	uint64_t leased;    /* the lock that is reserved for this thread, or 0, */
	uint32_t sections;  /* for so many sections more, */
	uint32_t ops;       /* as long as the lock's count is this */
	uint32_t contended; /* how often it has found a lock taken, and the first tries were in vain */
} __attribute__((may_alias));
_Static_assert(sizeof(struct memory) <= sizeof(fg_thread.lock_private), "must fit into the thread block");

static inline struct memory *mine(void)
{
	return (struct memory *)(void *)fg_thread.lock_private;
}

static inline bool is_free(uint32_t word)
{
	return !(word & FG_OWNER_MASK);
}

/* Takes the word that was found free, with `flags`. acquire: pairs with fgi_asymmetric_release. */
static inline __attribute__((always_inline)) bool take(struct fg_lock *l, uint32_t found, uint32_t flags)
{
	uint32_t self = fgi_self();

	fgi_intent_set(&l->word);
	if (fg_likely(fg_cas_acquire(&l->word, found, self | flags) == found)) {
		fgi_local_count(&l->ops);
		return true;
	}
	fgi_intent_clear(&l->word);
	return false;
}

/* What rules the lock at this time. Closes the ledger's sample if it is over. */
static enum fgi_regime regime_at(struct fg_lock *l, uint64_t now)
{
	struct fgi_ledger *ledger = fgi_ledger(l);

	if (now >= fg_load_relaxed(&ledger->until_ns))
		fgi_ledger_close(ledger, l, fg_load_relaxed(&l->ops), now);
	return fgi_ledger_regime(l);
}

/* Has the turn of a parked thread come? While the lock is busy, every rotate_ns. */
static bool rotation_due(const struct fg_lock *l, uint64_t now)
{
	struct fgi_ledger *ledger = fgi_ledger(l);
	uint32_t us = (uint32_t)(now / 1000);

	if (us - fg_load_relaxed(&ledger->rotated_us) < fgi_tune.rotate_ns / 1000)
		return false;
	fg_store_relaxed(&ledger->rotated_us, us);
	return true;
}

/* How long a parked thread may expect one before it in the line to keep the lock. The pace may be of a time that is
 * over: so there is a limit to what it is believed. */
static uint64_t turn_ns(const struct fg_lock *l)
{
	uint64_t pace = fgi_ledger_pace_ns(l);

	if (pace > LONGEST_TURN_NS)
		pace = LONGEST_TURN_NS;
	return pace > fgi_tune.lease_ns ? pace : fgi_tune.lease_ns;
}

/* ---- the alpha -------------------------------------------------------------------------------------------------- */

struct watch {
	uint64_t began, moved, now; /* when it sat down; when the lock was last seen to change hands; the last look */
	uint32_t ops;               /* the lock's count at the last look */
	uint64_t rest_ns;           /* until the next */
};

/* Busy-waits, or sleeps if that is worth it. */
static void rest(const struct watch *w)
{
	if (w->rest_ns >= CLOSE_NS) {
		fgi_nap((uint32_t)w->rest_ns);
		return;
	}
	do {
		fgi_spin_turns(8);
	} while (fgi_now_ns(CLOCK_MONOTONIC) - w->now < w->rest_ns);
}

/* Takes the free lock and leaves the seat. With `lease` one begins, if the lock is LEASED, and the lock is reserved for
 * the new owner: the last one is just coming back and would find it free between two sections as often as not.
 * On a lock that is seldom taken nobody may come for a while who would call the next: so this owner does when it
 * releases. */
static bool take_as_alpha(struct fg_lock *l, uint32_t found, bool lease)
{
	lease = lease && fgi_ledger_regime(l) == FGI_LEASED;
	if (!take(l, found, lease ? DEMAND : 0))
		return false;
	if (lease) {
		mine()->leased = (uintptr_t)l;
		mine()->sections = KEPT_SECTIONS;
		mine()->ops = l->ops;
	}
	if (fgi_room_leave(&l->room, fgi_ledger_pace_ns(l) > FGI_COLD_NS))
		fg_fetch_or_relaxed(&l->word, WAKE);
	return true;
}

static int give_up(struct fg_lock *l)
{
	fg_fetch_and_relaxed(&l->word, ~DEMAND);
	if (fgi_room_leave(&l->room, true))
		fgi_room_wake(&l->room);
	return ETIMEDOUT;
}

/* Sleeps until the lock is released; I2. */
static void sleep_on_word(struct fg_lock *l, const struct fgi_spin_budget *p)
{
	uint32_t word = fg_load_relaxed(&l->word);

	if (is_free(word))
		return;
	if (fg_cas_relaxed(&l->word, word, word | WAKE | DEMAND) != word)
		return;
	fg_thread.parks++;
	if (!fgi_membarrier())
		fgi_nap(BLIND_NAP_NS);
	else
		fgi_sleep_until(&l->word, word | WAKE | DEMAND, p, fgi_now_ns(CLOCK_MONOTONIC) + LONGEST_SLEEP_NS,
				FGI_ANYBODY);
}

/* Nothing moves: the owner is in a long section, preempted or asleep. */
static void bear(struct fg_lock *l, struct watch *w, const struct fgi_spin_budget *p)
{
	uint64_t still = w->now - w->moved, pace = fgi_ledger_pace_ns(l);
	uint32_t owner = fg_load_relaxed(&l->word) & FG_OWNER_MASK;
	bool off_cpu = fgi_preempted_cs() || fgi_owner_sleeps(owner);

	w->rest_ns = NEAR_NS;
	fgi_monitor_alive(w->now);
	if (off_cpu || still > fgi_tune.sleep_ns || pace > fgi_tune.sleep_ns) {
		sleep_on_word(l, p);
		fgi_ledger_slept(l, fgi_now_ns(CLOCK_MONOTONIC) - w->moved);
	} else if (still > fgi_tune.yield_ns) {
		fgi_spin_yield();
	}
}

/* The owner is at work: from afar, ever farther, and once it is clear that it stays, asleep for what is left. */
static void keep_away(struct watch *w)
{
	w->rest_ns = w->rest_ns * 2 < FAR_NS ? w->rest_ns * 2 : FAR_NS;
	if (w->now - w->began > CLOSE_NS && w->began + fgi_tune.lease_ns > w->now + CLOSE_NS)
		w->rest_ns = w->began + fgi_tune.lease_ns - w->now;
}

/* With the seat. `turn`: it is its turn. (Then the last owner may be preempted, by this very thread where the scheduler
 * saw no idle CPU: that too begins a lease, and so a call if the other cannot come.) Returns 0 with the lock, ETIMEDOUT
 * at the deadline. */
static int watch(struct fg_lock *l, const struct fgi_spin_budget *p, bool turn)
{
	uint64_t now = fgi_now_ns(CLOCK_MONOTONIC);
	struct watch w = {now, now, now, fg_load_relaxed(&l->ops), NEAR_NS};

	for (;;) {
		uint32_t word, ops;
		bool stood, expired, due;

		rest(&w);
		w.now = fgi_now_ns(CLOCK_MONOTONIC);
		word = fg_load_relaxed(&l->word);
		ops = fg_load_relaxed(&l->ops);
		stood = ops == w.ops;
		expired = w.now - w.began >= fgi_tune.lease_ns;
		due = regime_at(l, w.now) != FGI_LEASED || expired;
		if (is_free(word) && (stood || due)) {
			if (take_as_alpha(l, word, !stood || turn))
				return 0;
			w.rest_ns = 0;
			continue;
		}
		if (fgi_past_deadline(p))
			return give_up(l);
		if (expired && !(word & DEMAND))
			fg_cas_relaxed(&l->word, word, word | DEMAND);
		if (stood) {
			bear(l, &w, p);
		} else {
			w.ops = ops;
			w.moved = w.now;
			keep_away(&w);
		}
		if (due)
			w.rest_ns = 0;
	}
}

/* ---- without a seat --------------------------------------------------------------------------------------------- */

/* Between two sections of a lease: nobody has come for many of them. Who should have may be queued behind this thread,
 * where it cannot call anybody for milliseconds: so this one calls who is parked, if its turn is due. Returns whether
 * the lock stays reserved. */
static bool stay_reserved(struct fg_lock *l)
{
	bool parked = fg_load_relaxed(&l->room.seats) >= FGI_ONE;

	mine()->sections = KEPT_SECTIONS;
	if (!parked || !rotation_due(l, fgi_now_ns(CLOCK_MONOTONIC)))
		return parked;
	fgi_room_call(&l->room);
	return false;
}

/* In the first sections of a lease: until somebody has sat down to wait for its end, or nobody has come. It is no lease
 * while this runs: a call takes system calls, in which a signal handler may begin another. */
static bool take_reserved(struct fg_lock *l)
{
	uint32_t ops = mine()->ops;
	bool on = !(fg_load_relaxed(&l->room.seats) & FGI_SEAT);

	mine()->leased = 0;
	if (fg_load_relaxed(&l->ops) != ops)
		return false;
	if (on && mine()->sections-- == 0)
		on = stay_reserved(l);
	if (fg_load_relaxed(&l->ops) != ops || !take(l, DEMAND, on ? DEMAND : 0))
		return false;
	if (on) {
		mine()->leased = (uintptr_t)l;
		mine()->ops = ops + 1;
	}
	return true;
}

/* Waits about as long as a hand-over takes: tries to take the lock after `from` pauses, twice as many, up to `to`. */
static inline __attribute__((always_inline)) bool grab(struct fg_lock *l, uint32_t from, uint32_t to)
{
	for (uint32_t pauses = from; pauses <= to; pauses *= 2) {
		fgi_spin_turns(pauses);
		if (take(l, 0, 0))
			return true;
	}
	return false;
}

/* Seldom enough to cost nothing, often enough for the parked: also who comes easily by the lock looks at the room, if
 * somebody is there. */
static inline bool visit_due(const struct fg_lock *l)
{
	return ++mine()->contended % VISIT_EVERY == 0 && fg_load_relaxed(&l->room.seats) >= FGI_ONE;
}

/* The alpha demands the lock and is about to have it: a moment, so that the seat may be free then. */
static void stand_back(const struct fg_lock *l)
{
	int turns = fgi_ledger_pace_ns(l) <= fgi_tune.lease_ns ? 100 : 1;

	while (turns-- && (fg_load_relaxed(&l->word) & DEMAND) && (fg_load_relaxed(&l->room.seats) & FGI_SEAT))
		fgi_spin_turn();
}

/* With a place at the gate. Returns 0 with the lock, ETIMEDOUT at the deadline. If its clock wakes it twice and finds
 * the lock free, and it was not taken in between, then whoever is to take it is stopped: its demand is void. */
static int park(struct fg_lock *l, struct fgi_place *at, const struct fgi_spin_budget *p)
{
	uint32_t ops = 0;
	bool was_free = false;
	int result;

	while ((result = fgi_room_park(&l->room, at, p)) == EAGAIN) {
		uint32_t word = fg_load_relaxed(&l->word), before = ops;

		ops = fg_load_relaxed(&l->ops);
		if (is_free(word) && was_free && ops == before && take(l, word, 0)) {
			if (fgi_room_quit(&l->room, at))
				fg_fetch_or_relaxed(&l->word, WAKE);
			return 0;
		}
		was_free = is_free(word);
	}
	return result ? result : watch(l, p, at->turn);
}

__attribute__((noinline)) static int slow_path(struct fg_lock *l, const struct fgi_spin_budget *p)
{
	uint32_t word = fg_load_relaxed(&l->word);
	struct fgi_place at;

	if (word & DEMAND)
		stand_back(l);
	else if (is_free(word) && take(l, word, 0))
		return 0;
	if (fgi_room_enter(&l->room, turn_ns(l), rotation_due(l, fgi_now_ns(CLOCK_MONOTONIC)), &at))
		return watch(l, p, at.turn);
	return park(l, &at, p);
}

/* It was not free. Returns whether it came by the lock without waiting in the room. */
static inline __attribute__((always_inline)) bool take_quickly(struct fg_lock *l)
{
	if (fg_unlikely(mine()->leased == (uintptr_t)l) && take_reserved(l))
		return true;
	if (grab(l, 1, FIRST_PAUSES))
		return true;
	return fgi_ledger_regime(l) == FGI_GREEDY && !visit_due(l) && grab(l, FIRST_PAUSES * 2, LAST_PAUSES);
}

static inline bool fgi_trylock(struct fg_lock *l)
{
	uint32_t word = fg_load_relaxed(&l->word);

	return is_free(word) && take(l, word, word & DEMAND);
}

__attribute__((noinline)) static void contended(struct fg_lock *l)
{
	if (!take_quickly(l))
		slow_path(l, &FGI_SPIN_BUDGET(CLOCK_MONOTONIC, NULL));
}

static inline void fgi_lock(struct fg_lock *l)
{
	if (fg_unlikely(!take(l, 0, 0)))
		contended(l);
}

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	if (take(l, 0, 0) || take_quickly(l) || slow_path(l, &FGI_SPIN_BUDGET(clock, abs)) == 0)
		return 0;
	return fgi_trylock(l) ? 0 : ETIMEDOUT; /* one that is reserved could still be locked */
}

__attribute__((noinline, cold)) static void wake(struct fg_lock *l)
{
	if (fgi_futex_wake(&l->word, 1) == 0)
		fgi_room_wake(&l->room);
}

static inline void fgi_unlock(struct fg_lock *l)
{
	bool somebody;

	fgi_intent_restore(&l->word);
	somebody = fgi_asymmetric_release(&l->word, WAKE | DEMAND);
	fgi_intent_clear(&l->word);
	if (fg_unlikely(somebody))
		wake(l);
}
