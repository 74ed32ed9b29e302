/* SPDX-License-Identifier: MIT */
/* A candidate for the default lock. A waiter stays runnable as long as its CPU has nothing better to do, and gives way
 * when it has: what is better, the Preemption Monitor says. docs/results/flexguard-guided.md has what was measured, and
 * why it is not the default: in a closed loop of sections of nanoseconds it is slower than the default and glibc.
 *
 *   word            meaning                                               left by
 *   0               free                                                  any thread's compare-and-swap -> tid
 *   tid             held                                                  the release -> 0
 *   ... | DEMAND    the head waiter is due next: while the lock is free   the next owner's compare-and-swap
 *                   other waiters stand back for GRACE looks
 *   ... | PARKED    waiters with clocks may be parked: the release        the compare-and-swap of an owner that finds
 *                   wakes one if that is useful                           none counted
 *   ... | NEEDY     waiters without clocks may be parked: the release     the same
 *                   wakes one
 *   A release keeps the three flags. They may be set of a free word, too.
 *
 * A thread that finds the lock free takes it (`take` in fgi_lock and at the head of `slow`), unless it is demanded.
 * Otherwise it waits, in `slow`:
 *
 *   what the waiter sees                                             what it does
 *   the lock moves: the owner comes back faster than the waiter      it looks less often; after LEASE it takes the lock
 *   looks (a hot lock)                                               at the first chance
 *   the lock does not move                                           it pauses, and yields its CPU now and then
 *   the yield went to another process, for a slice                   it stops yielding for SHY: it spins, then parks
 *   a critical thread is preempted, of whatever lock                 it yields YIELDS times, then parks
 *   the owner sleeps, or has kept the lock for more than TURN        it parks
 *   it has waited for TURN, and no head waiter had the lock          it becomes the head waiter: it demands the lock,
 *   since                                                            and goes on yielding where others would park
 *   there is no monitor                                              it spins for what a sleep costs, then parks
 *   its policy is real-time                                          it spins for a moment, then parks; it never yields
 *
 * A parked waiter sleeps on the word. A release wakes the first in the order of the futex queue (by priority, then
 * first come, first served): if a waiter is needy, a CPU idles, or no parked waiter had its turn for TURN.
 *
 * I1  The word alone decides who owns the lock.
 * I2  A waiter is needy without a monitor, with a real-time policy, or if it has slept for a TURN in which nothing
 *     moved. Each other parked waiter has a clock of some TURNs. So whenever the lock is free and threads are parked, a
 *     wake-up is in flight, or a waiter is awake or has a clock: a waiter that counts as needy sets NEEDY in the word,
 *     and its sleep begins only if the word is still that. On x86-64 the release is no locked instruction and may
 *     overwrite a flag (runtime/arch/x86_64/asymmetric.h): so a waiter sleeps without a clock only after a membarrier.
 *     After the release no thread touches the lock's memory.
 * I4  The head waiter's demand holds for every other thread that runs, for GRACE looks.
 * I5  By published intent (runtime/thread.h).
 * I7  What the monitor says decides who waits how, never who owns the lock. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "locks/candidate/hints.h"
#include "locks/candidate/parked.h"
#include "locks/lock.h"
#include "runtime/arch/arch.h"
#include "runtime/futex.h"
#include "runtime/membarrier.h"
#include "runtime/spin_budget.h"
#include "runtime/thread.h"

struct fg_lock {
	uint32_t word;
	uint32_t ops;    /* acquisitions; only the owner writes it */
	uint32_t parked; /* how many waiters are (locks/candidate/parked.h) */
	uint16_t handed; /* when a waiter last took the lock, in us; like `turn` CLOCK_MONOTONIC modulo 2^16, */
	uint16_t turn;   /* and when a parked or head waiter had its turn, in TURNs / 16. Only the owner writes both */
};

#define NEEDY 0x80000000u /* the highest bit: what fgi_asymmetric_release reports */
#define DEMAND 0x40000000u
#define PARKED 0x20000000u
#define FLAGS (NEEDY | DEMAND | PARKED)
_Static_assert((FLAGS & FG_OWNER_MASK) == 0, "the owner's bits are the owner's");

/* docs/results/flexguard-guided.md has what was measured with them. */
#define FIRST_PAUSES 4u  /* between two looks at the word, */
#define LAST_PAUSES 256u /* and at most, while the lock is hot */
#define SPIN_PAUSES 32u  /* between two offers of the CPU */
#define GRACE 8u         /* looks for which a thread leaves a demanded lock to the head waiter */
#define YIELDS 2u        /* while a critical thread is preempted, before the waiter parks */
#define LEASE_US 50u     /* for so long a hot lock stays with its owner */
#ifndef FGI_TURN_NS
#define FGI_TURN_NS 1000000u
#endif
#define CLOCKS 4u /* the clock of a parked waiter: so many TURNs at most, the fewer are parked the fewer */
/* Of a waiter without a clock. Nothing rests on it (I2), unless a woken waiter is stopped before it takes the lock: by
 * a debugger, or by a signal handler that waits for another thread, perhaps for one that waits here. */
#define LONGEST_SLEEP_NS 1000000000u

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

/* The flags of a word that was found free, for its next owner. The caller has loaded the word with acquire: a parked
 * waiter counted itself before it set its flag in the word (release), so it is seen here. */
static inline uint32_t flags_of(const struct fg_lock *l)
{
	uint32_t parked = fg_load_relaxed(&l->parked);

	return (fgi_parked_needy(parked) ? NEEDY : 0) | (fgi_parked_with_clocks(parked) ? PARKED : 0);
}

static inline bool lease_is_over(const struct fg_lock *l, uint64_t now)
{
	return (uint16_t)(now / 1000 - fg_load_relaxed(&l->handed)) > LEASE_US;
}

static inline bool turn_is_over(const struct fg_lock *l, uint64_t now)
{
	return (uint16_t)(now / (FGI_TURN_NS / 16) - fg_load_relaxed(&l->turn)) >= 16;
}

static inline void begin_turn(struct fg_lock *l, uint64_t now)
{
	fg_store_relaxed(&l->turn, (uint16_t)(now / (FGI_TURN_NS / 16)));
}

/* ---- waiting ---------------------------------------------------------------------------------------------------- */

struct wait {
	const struct fgi_spin_budget *deadline;
	uint64_t began, now, moved; /* when it began to wait; the last look at the clock; when the lock last moved */
	uint32_t ops;               /* the lock's count at the last look */
	uint32_t pauses, spun;      /* between looks; since the last offer of the CPU */
	uint32_t yields;            /* since the preempted thread was first seen */
	uint32_t stood_back;        /* looks that found the lock free and unmoved */
	bool stuck;                 /* nothing has moved while it slept */
	bool due;                   /* takes the lock between two sections of its owner */
	bool head;                  /* the head waiter */
	bool real_time;
};

/* Sleeps until a wake-up or its clock. `needy`: I2. A waiter that has slept for a TURN while nothing moved does without
 * a clock: after it has set NEEDY it has every CPU pass a barrier, so that no release can overwrite that any more. */
static void park(struct fg_lock *l, const struct wait *w, bool needy)
{
	uint32_t others = fgi_parked(fg_load_relaxed(&l->parked)), word, found;
	uint32_t flag = needy || w->stuck ? NEEDY : PARKED, joined = fgi_parked_join(&l->parked, flag == NEEDY);
	uint64_t until = fgi_now_ns(CLOCK_MONOTONIC) + FGI_TURN_NS * (uint64_t)(others < CLOCKS ? others + 1 : CLOCKS);

	for (word = fg_load_relaxed(&l->word); !is_free(word); word = found) {
		/* release: pairs with the acquire in `slow`. Also where the flag is set: this waiter's count is new. */
		found = fg_cas_release(&l->word, word, word | flag);
		if (found == word) {
			if (w->stuck && joined && fgi_membarrier())
				until += LONGEST_SLEEP_NS;
			fg_thread.parks++;
			fgi_sleep_until(&l->word, word | flag, w->deadline, until, FGI_ANYBODY);
			break;
		}
	}
	fgi_parked_leave(&l->parked, joined);
}

/* After `park`: the waiter has had its rest, and takes the lock at the first chance. */
static void rise(struct fg_lock *l, struct wait *w)
{
	uint32_t ops = fg_load_relaxed(&l->ops);

	w->now = fgi_now_ns(CLOCK_MONOTONIC);
	w->stuck = ops == w->ops;
	if (!w->stuck)
		w->moved = w->now;
	w->ops = ops;
	w->pauses = FIRST_PAUSES;
	w->yields = 0;
	w->due = true;
}

/* The lock is held, and the waiter has spun for a while: what is better for its CPU to do? */
static void give_way(struct fg_lock *l, struct wait *w, uint32_t word)
{
	uint64_t still = w->now - w->moved;
	bool monitored = fgi_monitor_alive(w->now), parks;

	if (!monitored)
		parks = w->real_time || w->now - w->began > FGI_SPIN_UNMONITORED_NS;
	else if (w->real_time || still > FGI_TURN_NS || fgi_owner_sleeps(word & FG_OWNER_MASK))
		parks = true;
	else if (fgi_preempted_cs())
		parks = fgi_shy(w->now) || (++w->yields > YIELDS && !w->head);
	else
		parks = fgi_shy(w->now) && still > LEASE_US * 1000;
	if (parks) {
		park(l, w, !monitored || w->real_time);
		rise(l, w);
	} else if (monitored && !fgi_shy(w->now)) {
		fgi_yield(w->now);
		w->ops = fg_load_relaxed(&l->ops);
	}
}

static bool take_after_waiting(struct fg_lock *l, struct wait *w, uint32_t word)
{
	if (!take(l, word, flags_of(l)))
		return false;
	if (w->began)
		fg_store_relaxed(&l->handed, (uint16_t)(w->now / 1000));
	if (w->head)
		begin_turn(l, w->now);
	return true;
}

/* At the deadline. The waiter may have been woken for a release that it does not follow up: the next goes instead. */
static int give_up(struct fg_lock *l, struct wait *w)
{
	uint32_t word = fg_load_acquire(&l->word);

	if (w->head)
		word = fg_fetch_and_relaxed(&l->word, ~DEMAND) & ~DEMAND;
	if (is_free(word) && take(l, word, flags_of(l)))
		return 0;
	if (fgi_parked_needy(fg_load_relaxed(&l->parked)))
		fgi_futex_wake(&l->word, 1);
	return ETIMEDOUT;
}

/* The word is free. May the waiter take it? A lock that has moved since the last look is hot: its owner is about to
 * come back. */
static bool may_take(struct wait *w, uint32_t word, uint32_t moved)
{
	w->stood_back = moved ? 0 : w->stood_back + 1;
	if (w->stood_back == GRACE && !w->head && !fgi_shy(w->now) && !w->real_time)
		fgi_spin_yield(); /* the head waiter may be queued behind this thread */
	if (w->head || w->stood_back > GRACE)
		return true;
	return !(word & DEMAND) && (w->due || w->stood_back);
}

/* Looks at the clock, and at what it means. */
static void look_at_clock(struct fg_lock *l, struct wait *w, uint32_t word, uint32_t moved)
{
	w->now = fgi_now_ns(CLOCK_MONOTONIC);
	if (!w->began) {
		w->began = w->moved = w->now;
		w->real_time = fgi_real_time();
	} else if (moved) {
		w->moved = w->now;
	}
	w->due = lease_is_over(l, w->now);
	if (!w->head && !(word & DEMAND) && w->now - w->began > FGI_TURN_NS && turn_is_over(l, w->now))
		w->head = fg_cas_relaxed(&l->word, word, word | DEMAND) == word;
}

/* Returns 0 with the lock, ETIMEDOUT at the deadline. */
__attribute__((noinline)) static int slow(struct fg_lock *l, const struct fgi_spin_budget *deadline)
{
	struct wait w = {.deadline = deadline, .pauses = FIRST_PAUSES};
	uint32_t word = fg_load_acquire(&l->word), moved;

	w.ops = fg_load_relaxed(&l->ops);
	if (is_free(word) && !(word & DEMAND) && take(l, word, flags_of(l)))
		return 0;
	for (;;) {
		fgi_spin_turns(w.pauses);
		w.spun += w.pauses;
		word = fg_load_acquire(&l->word);
		moved = fg_load_relaxed(&l->ops) - w.ops;
		w.ops += moved;
		w.head = w.head && (word & DEMAND);
		if (is_free(word)) {
			if (may_take(&w, word, moved) && take_after_waiting(l, &w, word))
				return 0;
			continue;
		}
		w.stood_back = 0;
		if (moved > 1 && w.pauses < LAST_PAUSES && !w.head)
			w.pauses *= 2;
		else if (w.pauses > FIRST_PAUSES)
			w.pauses /= 2;
		if (w.spun < SPIN_PAUSES)
			continue;
		w.spun = 0;
		look_at_clock(l, &w, word, moved);
		if (fgi_past_deadline(deadline))
			return give_up(l, &w);
		give_way(l, &w, word);
	}
}

/* ---- the contract ------------------------------------------------------------------------------------------------ */

static inline bool fgi_trylock(struct fg_lock *l)
{
	uint32_t word = fg_load_relaxed(&l->word);

	return is_free(word) && take(l, word, word);
}

/* It was not free. */
__attribute__((noinline)) static void contended(struct fg_lock *l)
{
	slow(l, &FGI_SPIN_BUDGET(CLOCK_MONOTONIC, NULL));
}

static inline void fgi_lock(struct fg_lock *l)
{
	if (fg_unlikely(!take(l, 0, 0)))
		contended(l);
}

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	return take(l, 0, 0) ? 0 : slow(l, &FGI_SPIN_BUDGET(clock, abs));
}

static inline bool release(struct fg_lock *l)
{
	bool needy;

	fgi_intent_restore(&l->word);
	needy = fgi_asymmetric_release(&l->word, FLAGS);
	fgi_intent_clear(&l->word);
	return needy;
}

/* The word may belong to other memory by now. */
__attribute__((noinline, cold)) static void wake(struct fg_lock *l)
{
	fgi_futex_wake(&l->word, 1);
}

/* Waiters with clocks may be parked: is it useful to wake one? */
__attribute__((noinline)) static void release_to_parked(struct fg_lock *l)
{
	bool useful = false;

	if (fgi_parked_with_clocks(fg_load_relaxed(&l->parked))) {
		useful = fgi_idle_cpu();
		if (!useful) {
			uint64_t now = fgi_now_ns(CLOCK_MONOTONIC);

			useful = turn_is_over(l, now);
			if (useful)
				begin_turn(l, now);
		}
	}
	if (release(l) || useful)
		wake(l);
}

static inline void fgi_unlock(struct fg_lock *l)
{
	if (fg_unlikely(fg_load_relaxed(&l->word) & PARKED))
		release_to_parked(l);
	else if (fg_unlikely(release(l)))
		wake(l);
}
