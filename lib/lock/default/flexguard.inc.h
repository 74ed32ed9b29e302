/* SPDX-License-Identifier: MIT */
/* The default lock. FlexGuard's question (section 3: is a critical section preempted?) decides when a waiter gives its
 * CPU away. Two more decide the rest: what would the waiter's CPU do without it (scheduler.h), and does a hand-over
 * pay (pace.h)? docs/design/default-lock.md explains it.
 *
 *   word            meaning                                               left by
 *   0               free                                                  any thread's compare-and-swap -> tid
 *   tid             held                                                  the release -> 0
 *   ... | DEMAND    while the lock is free it is for the head waiter      that thread's compare-and-swap, or that of
 *                                                                         another that has stood back for MANY looks,
 *                                                                         or the head waiter that gives up
 *   ... | PARKED    waiters with clocks may be parked: the release wakes  the next owner that finds none counted, the
 *                   one if that is useful                                 release that wakes one, or any of a watched
 *                                                                         lock
 *   ... | NEEDY     waiters may be parked that a release has to wake (I2) the release that wakes one, or the next
 *                                                                         owner that finds none counted
 *   A release keeps the other flags, so a free word may have flags, too.
 *
 * fgi_lock takes a word that is 0, and fgi_trylock any free word; it leaves the flags. In `contended` a thread takes a
 * free lock at its first look, unless the lock is demanded, or hot, watched and not PARKED. Else it waits. The lock
 * "moves" when a thread takes it: `ops` counts that.
 *
 *   what the waiter sees                                             what it does
 *   nothing of what follows                                          it pauses, and yields its CPU now and then
 *   the lock is hot, and nobody watches                              it watches: it looks seldom, and when the lease
 *                                                                    is over it becomes the head waiter
 *   the lock is hot, and another waiter watches                      it parks
 *   the lock is not hot, the process uses many CPUs, and fewer       it watches: it pauses and yields as above, and
 *   than FEW watch                                                   gives a parked waiter its turn
 *   the same, and FEW watch                                          it looks for a moment, then parks
 *   another process waits for its CPU, or has taken a yield for a    it stops yielding for 4 or 100 ms: it spins, then
 *   slice                                                            parks
 *   the same, and it last slept at a lock more than a LONG_WAIT ago  it parks
 *   a critical thread is preempted, of whatever lock                 it yields FEW times, then parks; where others
 *                                                                    compete, at once
 *   it has woken another for its turn since it last waited           it parks, so that no more threads run than before
 *   the owner sleeps, or nothing moves for a LONG_WAIT, or           it parks
 *   the waiter's policy is real-time, or there is no monitor and
 *   it has spun for about what a sleep costs
 *   it has waited for a LONG_WAIT, and no other's turn is on         it becomes the head waiter: it demands the lock,
 *                                                                    keeps its CPU while nothing critical is preempted,
 *                                                                    and yields where others would park
 *
 * A parked waiter sleeps on the word. It is woken by a release that finds NEEDY, by one that finds PARKED and a use for
 * the waiter (release_to_parked), by a watcher, or by its clock, which is a timeout of its sleep. The futex queue says
 * which waiter is woken: by priority, then first come, first served.
 *
 * Memory: 16 bytes a lock; a table of the process (pace.h), and a thread's memo in its thread block.
 *
 * I1  The word alone decides who owns the lock.
 * I2  A parked waiter has a clock of up to 16 LONG_WAITs, or it is needy, so that a release wakes it: without a
 *     monitor, with a real-time policy, or after a sleep of a LONG_WAIT in which nothing moved. In the last two cases
 *     it has no clock. A needy one sets NEEDY, and sleeps only if the word is still that. The release that wakes one
 *     takes NEEDY out, and the woken one stands for the others: it takes the lock or parks with NEEDY, parks with a
 *     clock, or wakes the next when it gives up. On x86-64 the release may overwrite a flag
 *     (runtime/arch/x86_64/asymmetric.h), so a sleep without a clock begins after a membarrier. After the release no
 *     thread touches the lock's memory.
 * I4  The head waiter's demand holds for every other waiter that runs, for MANY looks. fgi_trylock ignores it.
 * I5  By published intent (runtime/thread.h).
 * I7  What the monitor says decides who waits how, never who owns the lock. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define FGI_LOCK_NAMES_OWNER
#include "lock/default/numbers.h"
#include "lock/default/pace.h"
#include "lock/default/scheduler.h"
#include "lock/default/waiters.h"
#include "lock/lock.h"
#include "runtime/arch/arch.h"
#include "runtime/futex.h"
#include "runtime/membarrier.h"
#include "runtime/spin_budget.h"
#include "runtime/thread.h"

struct fg_lock {
	uint32_t word;
	uint32_t ops;     /* acquisitions; only the owner writes it */
	uint32_t waiters; /* lock/default/waiters.h */
	uint32_t turn;    /* when the last turn or lease began: in FGI_TURN_NS / FGI_MANY, modulo 2^32 */
};

#define NEEDY 0x80000000u /* a release has to wake this waiter; the highest bit: fgi_asymmetric_release reports it */
#define DEMAND 0x40000000u
#define PARKED 0x20000000u
#define FLAGS (NEEDY | DEMAND | PARKED)
_Static_assert((FLAGS & FG_OWNER_MASK) == 0, "the owner's bits are the owner's");

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

static inline bool is_monitored(void)
{
	return fg_load_relaxed(&fgi_monitor_page) != &fgi_no_monitor;
}

static inline bool is_hot(const struct fg_lock *l)
{
	return fgi_hot(fg_load_relaxed(&l->waiters));
}

/* Are its awake waiters watchers, few of them, who look after the parked ones? */
static inline bool is_watched(bool hot)
{
	return hot || (is_monitored() && !fgi_few_cpus());
}

/* Need the next release not wake one that is parked with a clock? A lock is quick that is acquired more often than
 * every FGI_HOT_NS; and if it is hot, watched. */
static inline bool is_looked_after(const struct fg_lock *l, uint32_t waiters)
{
	bool hot = fgi_hot(waiters);
	uint32_t period = fgi_pace(l, hot);
	bool quick = period && period < FGI_HOT_NS;

	return fgi_watchers(waiters) ? hot || quick || fg_load_relaxed(&l->ops) % FGI_SOME : quick && !hot;
}

/* The flags of a word that was found free, for its next owner. The caller has loaded the word with acquire: a parked
 * waiter counts itself before it sets its flag in the word (release), so it is seen here. Beside a watcher, if the lock
 * is not hot, one taker in SOME sets PARKED. Of a quick lock none does: two threads hand such a lock to each other 1.5
 * times as fast if they find its word 0. */
static inline uint32_t flags_of(const struct fg_lock *l, uint32_t word)
{
	uint32_t waiters = fg_load_relaxed(&l->waiters), flags = fgi_needy(waiters) ? NEEDY : 0;

	if (fgi_clocked(waiters))
		flags |= is_looked_after(l, waiters) ? word & PARKED : PARKED;
	return flags;
}

/* The turn of a parked or head waiter to take the lock before others, or the lease of a hot lock, begins. */
static inline void begin_turn(struct fg_lock *l, uint64_t now)
{
	fg_store_relaxed(&l->turn, (uint32_t)(now / (FGI_TURN_NS / FGI_MANY)));
}

/* A lease lasts FEW of MANY parts of a turn: the owner of a hot lock never waits, and may lose its CPU in a section. */
static inline bool turn_is_over(const struct fg_lock *l, uint64_t now)
{
	return (uint32_t)(now / (FGI_TURN_NS / FGI_MANY)) - fg_load_relaxed(&l->turn) >=
	       (is_hot(l) ? FGI_FEW : FGI_MANY);
}

/* ---- waiting ---------------------------------------------------------------------------------------------------- */

struct wait {
	const struct fgi_deadline *deadline;
	uint64_t began, now, moved_at; /* when it began to wait; the last look at the clock; when the lock last moved */
	uint64_t awake;                /* since when it has been awake */
	uint32_t ops;                  /* the lock's count at the last look */
	uint32_t passed;               /* how often it has seen the lock move since it began to wait, or rose */
	uint32_t spun;                 /* pauses since the last look at the clock */
	uint32_t yields;               /* since it last slept, while a critical thread was preempted */
	uint32_t stood_back;           /* looks that found the lock free and unmoved */
	uint32_t watching;             /* what fgi_join returned; 0: it does not watch */
	bool looked;                   /* this is not its first look */
	bool hot;                      /* the lock is, at the last look */
	bool head;                     /* the head waiter */
	bool woken;                    /* it was parked, and its turn has come */
	bool stuck;                    /* nothing has moved for a LONG_WAIT, and it has slept */
	bool real_time;
};

/* What a thread remembers of its waits, in its thread block. */
struct memo {
	uint64_t made_way_at; /* the lock where it last woke another for its turn, unless it has waited since */
	uint64_t slept;       /* until when it last slept at a lock; 0: never */
} __attribute__((may_alias));
_Static_assert(sizeof(struct memo) <= sizeof(fg_thread.lock_private), "must fit into the thread block");

static inline struct memo *memo(void)
{
	return (struct memo *)(void *)fg_thread.lock_private;
}

static void stop_watching(struct fg_lock *l, struct wait *w)
{
	fgi_leave(&l->waiters, w->watching);
	w->watching = 0;
}

/* The release looks after the parked waiters that this one has watched for, or was woken in place of. */
static void hand_to_release(struct fg_lock *l, struct wait *w)
{
	stop_watching(l, w);
	fg_fetch_or_relaxed(&l->word, PARKED);
}

/* Sleeps until a wake-up or its clock (I2). When its clock ends its sleep, a waiter loses its place in the futex queue,
 * so one with a real-time policy sleeps without a clock. A watcher wakes parked waiters: beside one PARKED is not
 * needed. There the word may be free, and of a hot lock changes all the time: it takes some tries to sleep on it. */
static void park(struct fg_lock *l, const struct wait *w, bool needy)
{
	uint32_t waiters = fg_load_relaxed(&l->waiters), others = fgi_clocked(waiters) + fgi_needy(waiters);
	uint32_t flag = needy || w->stuck ? NEEDY : PARKED;
	uint32_t joined = fgi_join(&l->waiters, flag == NEEDY ? FGI_ONE_NEEDY : FGI_ONE_CLOCKED);
	bool beside_watcher = flag == PARKED && fgi_watchers(fg_load_relaxed(&l->waiters));
	uint32_t groups = others / FGI_MANY + 1;
	uint64_t clock = (uint64_t)FGI_LONG_WAIT_NS * (groups < FGI_FEW * FGI_MANY ? groups : FGI_FEW * FGI_MANY);
	uint64_t until = fgi_now_ns(CLOCK_MONOTONIC) + clock;

	for (uint32_t tries = 0; tries < FGI_FEW * FGI_MANY; tries++) {
		uint32_t word = fg_load_relaxed(&l->word);

		if (!beside_watcher) {
			if (is_free(word))
				break;
			/* release: pairs with the acquire of `contended`. Also if set: this waiter's count is new. */
			if (fg_cas_release(&l->word, word, word | flag) != word)
				continue;
			word |= flag;
		}
		if ((w->stuck || w->real_time) && joined && fgi_membarrier())
			until += (uint64_t)FGI_LONGEST_SLEEP_NS * groups;
		fg_thread.parks++;
		if (fgi_sleep_until(&l->word, word, w->deadline, until, FGI_ANYBODY) != EAGAIN) {
			memo()->slept = fgi_now_ns(CLOCK_MONOTONIC);
			break;
		}
		if (!beside_watcher)
			break;
	}
	fgi_leave(&l->waiters, joined);
}

/* The waiter was off its CPU. How often the lock has moved meanwhile says nothing. */
static void skip_moves(const struct fg_lock *l, struct wait *w)
{
	uint32_t ops = fg_load_relaxed(&l->ops);

	if (ops != w->ops) {
		w->stood_back = 0;
		w->moved_at = w->now;
	}
	w->ops = ops;
}

/* After `park`: the waiter has had its rest, and takes the lock at the first chance. */
static void rise(struct fg_lock *l, struct wait *w)
{
	w->now = fgi_now_ns(CLOCK_MONOTONIC);
	w->hot = is_hot(l);
	skip_moves(l, w);
	w->stuck = w->now - w->moved_at >= FGI_LONG_WAIT_NS;
	w->awake = w->now;
	w->yields = 0;
	w->passed = 0;
	w->woken = true;
	if (is_watched(w->hot) && !w->real_time)
		w->watching = fgi_join(&l->waiters, FGI_ONE_WATCHER);
}

/* Is this waiter one of those that stay awake? A hot lock has one, another lock FEW, after a first look without
 * being counted. They park once more watch, which were parked and woken. A watcher wakes the next parked waiter when a
 * turn is over. */
static bool watch(struct fg_lock *l, struct wait *w)
{
	uint32_t waiters = fg_load_relaxed(&l->waiters), most = w->hot ? 1 : FGI_FEW;

	if (!w->watching && !w->hot && w->now == w->awake)
		return true;
	if (!w->watching && fgi_watchers(waiters) < most)
		w->watching = fgi_join(&l->waiters, FGI_ONE_WATCHER);
	if (!w->watching || (!w->woken && fgi_watchers(waiters) > most))
		return false;
	if (fgi_clocked(waiters) && fgi_watchers(waiters) <= most && turn_is_over(l, w->now)) {
		begin_turn(l, w->now);
		fgi_futex_wake(&l->word, 1);
	}
	return true;
}

/* Where others compete, a waiter that has not slept at a lock for a LONG_WAIT sleeps before its time slice ends: it may
 * end in a section, and a holder of nice level 19 waits for some 250 ms then. The sleep gives it a new slice. A new
 * thread, and one that waits seldom, park so at their first look, as under a mutex that blocks. */
static bool should_park(struct fg_lock *l, struct wait *w, uint32_t word)
{
	uint64_t still = w->now - w->moved_at;
	bool made_way = memo()->made_way_at == (uintptr_t)l;

	memo()->made_way_at = 0;
	if (w->real_time || still > FGI_LONG_WAIT_NS || fgi_owner_sleeps(word & FG_OWNER_MASK))
		return true;
	if (!w->head && (made_way || (is_watched(w->hot) && !watch(l, w))))
		return true;
	if (fgi_preempted_cs())
		return fgi_others_compete(w->now) || (++w->yields > FGI_FEW && !w->head);
	return fgi_others_compete(w->now) && (still > FGI_TURN_NS || w->now > memo()->slept + FGI_LONG_WAIT_NS);
}

/* The waiter has spun for a while: what is better for its CPU to do? */
static void give_way(struct fg_lock *l, struct wait *w, uint32_t word)
{
	bool monitored = fgi_monitor_alive(w->now);
	bool has_spun = w->now - w->awake >= FGI_SPIN_UNMONITORED_NS; /* what a sleep costs, besides its yields */

	if (monitored ? should_park(l, w, word) : w->real_time || has_spun) {
		stop_watching(l, w);
		park(l, w, !monitored || w->real_time);
		rise(l, w);
	} else if (fgi_others_compete(w->now) || (w->head && !fgi_preempted_cs())) {
		return;
	} else {
		w->awake += fgi_yield(w->now);
		skip_moves(l, w);
	}
}

/* At the deadline. The waiter may have been woken for a release that it does not follow up: the next goes instead. It
 * may also have set NEEDY while a release was overwriting it, and another waiter may have read it so before it went to
 * sleep: after the barrier that release is over. */
static int give_up(struct fg_lock *l, struct wait *w)
{
	if (w->watching || w->woken)
		hand_to_release(l, w);
	if (w->head)
		fg_fetch_and_relaxed(&l->word, ~DEMAND);
	if (fgi_needy(fg_load_relaxed(&l->waiters))) {
		fgi_membarrier();
		fgi_futex_wake(&l->word, 1);
	}
	return ETIMEDOUT;
}

/* The word is free; the lock has moved `moved` times since the last look. May the waiter take it? A hot lock that has
 * moved has an owner that is about to come back. */
static bool may_take(const struct fg_lock *l, struct wait *w, uint32_t word, uint32_t moved)
{
	if (!w->looked)
		return !(word & DEMAND) && (!w->hot || (word & PARKED) || !fgi_watchers(fg_load_relaxed(&l->waiters)));
	w->stood_back = moved ? 0 : w->stood_back + 1;
	if (w->stood_back == FGI_MANY && !w->head && !fgi_others_compete(w->now) && !w->real_time)
		fgi_spin_yield(); /* the head waiter may be queued behind this thread */
	if (w->head || w->stood_back > FGI_MANY)
		return true;
	if (word & DEMAND)
		return false;
	return w->stood_back || !is_hot(l);
}

static bool take_after_waiting(struct fg_lock *l, struct wait *w, uint32_t word)
{
	stop_watching(l, w); /* first, so that flags_of does not count on it */
	if (!take(l, word, flags_of(l, word)))
		return false;
	memo()->made_way_at = 0;
	if (w->began && (w->hot || w->head))
		begin_turn(l, w->now);
	return true;
}

/* Looks at the clock, and at what it means. */
static void look_at_clock(struct fg_lock *l, struct wait *w, uint32_t word, uint32_t moved)
{
	w->now = fgi_now_ns(CLOCK_MONOTONIC);
	if (!w->began) {
		w->began = w->moved_at = w->awake = w->now;
		w->real_time = fgi_real_time();
	} else if (moved) {
		w->moved_at = w->now;
	}
	w->hot = is_hot(l);
	if (w->watching && !is_watched(w->hot)) /* those that are parked have to do without */
		hand_to_release(l, w);
	if (!w->head && !(word & DEMAND) && (w->hot || w->now - w->began > FGI_LONG_WAIT_NS) && turn_is_over(l, w->now))
		w->head = fg_cas_relaxed(&l->word, word, word | DEMAND) == word;
}

/* How long to the next look. Where many wait, each is passed by many. A waiter that has been passed n times looks n
 * times less often, so that all of them together look about as often as one. */
static void back_off(struct wait *w, uint32_t moved)
{
	uint32_t pauses = FGI_PAUSES;

	w->passed += moved;
	if (!w->head)
		pauses *= w->hot ? FGI_MANY * FGI_MANY : w->passed < FGI_SOME ? w->passed + 1 : FGI_SOME;
	w->looked = true;
	w->spun += pauses;
	fgi_back_off(pauses);
}

/* The lock was not free. Returns 0 with the lock, ETIMEDOUT at the deadline. Called, as `wake` is, by api/mutex.c, too,
 * whose fast path programs compile in. */
__attribute__((noinline)) static int contended(struct fg_lock *l, const struct fgi_deadline *deadline)
{
	struct wait w = {.deadline = deadline};

	fgi_pace_measure(l, &l->ops, &l->waiters, fgi_now_ns(CLOCK_MONOTONIC), is_monitored());
	w.ops = fg_load_relaxed(&l->ops);
	w.hot = is_hot(l);
	for (;;) {
		uint32_t word = fg_load_acquire(&l->word), moved = fg_load_relaxed(&l->ops) - w.ops;

		w.ops += moved;
		w.head = w.head && (word & DEMAND);
		if (!is_free(word))
			w.stood_back = 0;
		else if (may_take(l, &w, word, moved) && take_after_waiting(l, &w, word))
			return 0;
		if (w.spun >= FGI_PAUSES * FGI_MANY && (w.hot || !is_free(word))) {
			w.spun = 0;
			look_at_clock(l, &w, word, moved);
			if (fgi_past_deadline(deadline) && !is_free(word))
				return give_up(l, &w);
			give_way(l, &w, word);
		}
		back_off(&w, moved);
	}
}

/* ---- the contract ------------------------------------------------------------------------------------------------ */

static inline bool fgi_trylock(struct fg_lock *l)
{
	uint32_t word;

	while (is_free(word = fg_load_relaxed(&l->word))) { /* a waiter may change a flag meanwhile */
		if (take(l, word, word))
			return true;
	}
	return false;
}

static inline void fgi_lock(struct fg_lock *l)
{
	if (fg_unlikely(!take(l, 0, 0)))
		contended(l, &FGI_NEVER);
}

static inline int fgi_timedlock(struct fg_lock *l, struct fgi_deadline until)
{
	return take(l, 0, 0) ? 0 : contended(l, &until);
}

/* Returns whether a needy waiter may be parked. */
static inline bool release(struct fg_lock *l, uint32_t kept)
{
	bool needy;

	fgi_intent_restore(&l->word);
	needy = fgi_asymmetric_release(&l->word, kept);
	fgi_intent_clear(&l->word);
	return needy;
}

/* The word may belong to other memory by now. Returns whether it has woken one. */
__attribute__((noinline, cold)) static bool wake(struct fg_lock *l)
{
	return fgi_futex_wake(&l->word, 1) > 0;
}

/* Waiters may be parked. A needy one is woken. One with a clock is woken if a CPU idles that this process uses
 * (fgi_cpu_set), or, where nobody watches, if other processes compete for the CPUs or a turn is over. Beside a watcher
 * the flag goes anyway, and whether a CPU idles is looked at after the release: on many CPUs that look takes as long as
 * a hand-over. The flag for which one is woken goes, lest the next releases wake the others for the same CPU. */
__attribute__((noinline)) static void release_to_parked(struct fg_lock *l)
{
	uint32_t waiters = fg_load_relaxed(&l->waiters);
	uint32_t woken = fg_load_relaxed(&l->word) & NEEDY; /* the flags of those of whom one is woken, */
	bool watched = fgi_clocked(waiters) && fgi_watchers(waiters), turn = false;
	uint32_t seen = watched ? PARKED : 0; /* and that of those whom the watcher wakes */

	if (fgi_clocked(waiters) && !watched) {
		uint64_t now = fgi_now_ns(CLOCK_MONOTONIC);
		bool useful = fgi_idle_cpu(fgi_cpu_set) || fgi_others_compete(now);

		turn = !useful && turn_is_over(l, now);
		if (useful || turn) {
			begin_turn(l, now);
			woken |= PARKED;
		}
	}
	if ((release(l, FLAGS & ~(woken | seen)) || woken || (watched && fgi_idle_cpu(fgi_cpu_set))) && wake(l) && turn)
		memo()->made_way_at = (uintptr_t)l;
}

static inline void fgi_unlock(struct fg_lock *l)
{
	if (fg_unlikely(fg_load_relaxed(&l->word) & (PARKED | NEEDY)))
		release_to_parked(l);
	else if (fg_unlikely(release(l, FLAGS))) /* NEEDY was set after the look: it stays, for the next release */
		wake(l);
}
