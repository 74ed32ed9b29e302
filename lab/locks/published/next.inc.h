/* SPDX-License-Identifier: MIT */
/* The default lock, designed again for 2 to 512 CPUs: docs/design/next-lock.md. A test-and-set lock whose waiters are
 * few: at most a handful are awake, the others sleep, and one is woken so early that it is awake at its turn.
 *
 *   word               meaning                                          left by
 *   0                  free                                             a compare-and-swap -> tid
 *   tid                held                                             the release -> 0
 *   ... | WAKE         the owner, which has waited, has promised a      its release, which wakes one
 *                      parked waiter its place
 *   ... | DEMAND       while the lock is free it is for the head        the next owner
 *   ... | LAST_SLEEPS  the only awake waiter sleeps on the word         the release, which wakes it
 *
 *   a waiter is   how it waits                                 until
 *   uncounted     has just come, where CPUs are few: looks     it takes the lock, or some pauses are over
 *                 all the time
 *   fast          looks at the word all the time; one is       it takes the lock, or rests
 *   awake         looks seldom, and yields its CPU             it takes the lock, is fast, or rests
 *   watching      awake, and the lock is hot: looks seldom,    a lease is over (DEMAND), or the owner stays away
 *                 leaves the lock to the owner that comes back
 *   head          awake, LEASE acquisitions have passed it     it takes the lock, which is reserved for it
 *   last          sleeps on the word, counted as awake         the release, or its clock
 *   parked        sleeps on the upper half of `waiters`        a taker passes its place on, and the release wakes it
 *
 * I1  The word alone decides who owns the lock.
 * I2  In `waiters`, which changes by compare-and-swap only: where a waiter is parked and not promised a place, another
 *     is awake. Who leaves the awake leaves one behind, or promises a place and wakes. The last one to rest sets
 *     LAST_SLEEPS. The release may overwrite it (lib/runtime/arch/x86_64/asymmetric.h): it has a clock, or a barrier.
 * I4  DEMAND holds for every waiter that runs, for GRACE looks; places are promised in the futex queue's order.
 * I5  By published intent. I6  A mark tells the child of a fork that the parent's counts are not its own.
 * I7  What the monitor says decides who waits how, never who owns the lock. */
#define FGI_LOCK_NAMES_OWNER
#include "lock/default/scheduler.h"
#include "lock/lock.h"
#include "runtime/membarrier.h"

struct fg_lock {
	uint32_t word;
	uint32_t ops;     /* acquisitions; only the owner writes it */
	uint64_t waiters; /* below */
};

#define LAST_SLEEPS 0x80000000u /* the highest bit: fgi_asymmetric_release reports it */
#define DEMAND 0x40000000u
#define WAKE 0x20000000u

/* The numbers that a measurement chose: docs/design/next-lock.md has what each is worth. */
#ifndef FGI_LONG_WAIT_NS
#define FGI_LONG_WAIT_NS 1000000u /* a lock that has not moved for so long is worth a sleep */
#endif
#define LEASE 256u      /* acquisitions that pass a waiter before it demands the lock */
#define KEPT 4u         /* so many waiters are kept awake; twice as many may stay that come */
#define SHARE 4u        /* of so many takers one promises a parked waiter a place although enough are awake */
#define FIRST_PAUSES 4u /* between two looks, */
#define SLOW_PAUSES 64u /* and of a waiter that is not the fast one, at most */
#define SPIN_PAUSES 32u /* between two looks at the clock, and two offers of the CPU; a half: see `slow` */
#define GRACE 8u        /* looks for which a thread leaves a demanded lock to the head */
#define RETURNS 2       /* of the owner, which make the lock hot */

#define LONGEST_SLEEP_NS 1000000000u /* nothing rests on it */

/* `waiters`. COMING: promised a place, counted as awake and as parked until it comes. The upper half, on which the
 * parked sleep, changes whenever a place is promised (PROMISES), and seldom otherwise. */
#define AWAKE 1ull
#define COMING (1ull << 7)
#define PARKED (1ull << 14)
#define FAST (1ull << 31)
#define HOT (1ull << 32)
#define PROMISES (1ull << 33)
#define PROCESS (1ull << 56)
#define MOST_PARKED ((uint32_t)(FAST / PARKED) - 1)
#define MOST_AWAKE 100u

static inline uint64_t waiters_here(uint64_t waiters)
{
	uint64_t none = fg_load_relaxed(&fgi_forks) / 2 * PROCESS;

	return (waiters ^ none) < PROCESS ? waiters : none;
}

static inline uint64_t waiters_of(const struct fg_lock *l)
{
	return waiters_here(fg_load_relaxed(&l->waiters));
}

static inline uint32_t awake_in(uint64_t w)
{
	return (uint32_t)(w % COMING);
}

static inline uint32_t coming_in(uint64_t w)
{
	return (uint32_t)(w % PARKED / COMING);
}

static inline uint32_t parked_in(uint64_t w)
{
	return (uint32_t)(w % FAST / PARKED);
}

/* On how many CPUs waiters of this process have run. */
static inline uint32_t usable_cpus(void)
{
	(void)fgi_few_cpus(); /* counts this one */
	return fg_load_relaxed(&fgi_cpus);
}

/* No more waiters than CPUs look at the same time, so where those are few, all may stay awake. */
static inline bool all_may_stay(void)
{
	return usable_cpus() <= 2 * KEPT;
}

/* How many should be awake. `times`: 1 for a wake-up, 2 for a thread that comes and is awake anyway. The leases of a
 * hot lock hide a wake. */
static inline uint32_t most_awake(uint64_t w, uint32_t times)
{
	if (w & HOT)
		return 1;
	return all_may_stay() && times == 2 ? MOST_AWAKE : KEPT * times;
}

static inline uint32_t *upper_half(uint64_t *waiters)
{
	return (uint32_t *)(void *)waiters + (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
}

/* At one acquisition in `n`. */
static inline bool one_in(uint32_t ops, uint32_t n)
{
	return ops % n == 0;
}

static inline bool is_free(uint32_t word)
{
	return !(word & FG_OWNER_MASK);
}

/* acquire: pairs with fgi_asymmetric_release. */
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

/* ---- waiting ---------------------------------------------------------------------------------------------------- */

struct wait {
	const struct fgi_deadline *deadline;
	uint64_t now, moved_at,
		since;         /* the last look at the clock; when the lock last moved; awake and on a CPU since */
	uint32_t ops, joined;  /* the lock's count at the last look, and when it became awake */
	uint32_t owner;        /* at the last look that found one */
	uint32_t pauses, spun; /* before the next look, and since the last look at the clock */
	uint32_t stood_back;
	int returns; /* of the owner that it saw come back, less those of others */
	bool awake, fast, head, hot;
	bool looked; /* the last look was just before */
	bool stuck;  /* nothing has moved for a LONG_WAIT, and it has slept */
	bool real_time;
};

/* Takes the caller out of the awake. Returns whether a parked waiter was promised a place: it has to be woken. */
static bool leave_awake(struct fg_lock *l, const struct wait *w, bool share)
{
	for (;;) {
		uint64_t seen = fg_load_relaxed(&l->waiters), here = waiters_here(seen);
		uint64_t next = (here - (awake_in(here) ? AWAKE : 0)) & ~(w->fast ? FAST : 0);
		bool promise = parked_in(here) > coming_in(here) &&
			       (awake_in(next) < most_awake(here, 1) || (share && !(here & HOT)));

		if (awake_in(next) >= MOST_AWAKE)
			promise = false;
		if (promise)
			next = (((next + PROMISES) & (PROCESS - PROMISES)) | (next & ~(PROCESS - PROMISES))) + AWAKE +
			       COMING;
		if (fg_cas_acq_rel(&l->waiters, seen, next) == seen)
			return promise;
	}
}

/* It has slept, or become awake. */
static void rise(struct fg_lock *l, struct wait *w)
{
	uint32_t ops = fg_load_relaxed(&l->ops);

	w->now = w->since = fgi_now_ns(CLOCK_MONOTONIC);
	if (ops != w->ops)
		w->moved_at = w->now;
	w->ops = ops;
	w->stood_back = 0;
	w->returns = 0;
	w->looked = false;
}

/* Tries to come for a promised place, or where nobody is awake. 1: it is awake; 0: it is to sleep on, in the state
 * `*here`; -1: the deadline has passed. */
static int come(struct fg_lock *l, struct wait *w, uint64_t *here)
{
	bool over = fgi_past_deadline(w->deadline);

	for (;;) {
		uint64_t seen = fg_load_relaxed(&l->waiters), next;

		*here = waiters_here(seen);
		next = *here - (parked_in(*here) ? PARKED : 0);
		w->fast = false;
		if (coming_in(*here))
			next -= COMING;
		else if (!awake_in(*here))
			next += AWAKE;
		else if (!over)
			return 0;
		if (coming_in(*here) || !awake_in(*here)) {
			w->fast = !(*here & FAST);
			next |= FAST;
		}
		if (fg_cas_acq_rel(&l->waiters, seen, next) == seen)
			return coming_in(*here) || !awake_in(*here) ? 1 : -1;
	}
}

/* Returns false at the deadline. */
static bool sleep_parked(struct fg_lock *l, struct wait *w, uint64_t here)
{
	int came;

	do {
		fgi_park(upper_half(&l->waiters), (uint32_t)(here >> 32), w->deadline);
		came = come(l, w, &here);
	} while (came == 0);
	if (came < 0)
		return false;
	w->awake = true;
	rise(l, w);
	w->joined = w->ops;
	return true;
}

/* The thread has found the lock held: it stays awake, or parks. Returns false at the deadline. */
static bool begin_wait(struct fg_lock *l, struct wait *w)
{
	for (;;) {
		uint64_t seen = fg_load_relaxed(&l->waiters), here = waiters_here(seen);
		bool stays = !awake_in(here) || awake_in(here) < most_awake(here, 2), fast;

		if (!stays && parked_in(here) == MOST_PARKED) {
			if (fgi_past_deadline(w->deadline))
				return false;
			fgi_nap(FGI_LONG_WAIT_NS);
			continue;
		}
		fast = stays && !(here & (FAST | HOT));
		here += (stays ? AWAKE : PARKED) + (fast ? FAST : 0);
		if (fg_cas_acq_rel(&l->waiters, seen, here) != seen)
			continue;
		if (!stays)
			return sleep_parked(l, w, here);
		w->awake = true;
		w->fast = fast;
		w->hot = here & HOT;
		w->joined = w->ops;
		return true;
	}
}

/* The only awake waiter sleeps on the word, and looks after those that are parked: it still counts as awake. */
static void sleep_last(struct fg_lock *l, struct wait *w)
{
	uint32_t word = fg_load_relaxed(&l->word);
	uint64_t until;

	/* release: pairs with the acquire in `slow` */
	if (is_free(word) || fg_cas_release(&l->word, word, word | LAST_SLEEPS) != word)
		return;
	until = fgi_now_ns(CLOCK_MONOTONIC) + FGI_LONG_WAIT_NS;
	if ((w->stuck || w->real_time) && fgi_membarrier())
		until += LONGEST_SLEEP_NS;
	fg_thread.parks++;
	fgi_sleep_until(&l->word, word | LAST_SLEEPS, w->deadline, until, FGI_ANYBODY);
	rise(l, w);
	w->stuck = w->now - w->moved_at >= FGI_LONG_WAIT_NS;
}

/* Returns false at the deadline. */
static bool rest(struct fg_lock *l, struct wait *w)
{
	if (w->head)
		fg_fetch_and_relaxed(&l->word, ~DEMAND);
	w->head = false;
	for (;;) {
		uint64_t seen = fg_load_relaxed(&l->waiters), here = waiters_here(seen);

		if (awake_in(here) < 2 || parked_in(here) == MOST_PARKED)
			break;
		here = (here - AWAKE + PARKED) & ~(w->fast ? FAST : 0);
		if (fg_cas_acq_rel(&l->waiters, seen, here) == seen) {
			w->awake = w->fast = false;
			return sleep_parked(l, w, here);
		}
	}
	sleep_last(l, w);
	return true;
}

static bool should_rest(struct fg_lock *l, struct wait *w, uint32_t word)
{
	uint64_t still = w->now - w->moved_at, here = waiters_of(l);

	if (w->real_time || still > FGI_LONG_WAIT_NS || fgi_owner_sleeps(word & FG_OWNER_MASK))
		return true;
	if (!w->head && awake_in(here) > most_awake(here, 2))
		return true;
	return fgi_others_compete(w->now) && still > FGI_SPIN_UNMONITORED_NS;
}

/* The waiter has spun for a while: what is better for its CPU to do? Returns false at the deadline. */
static bool give_way(struct fg_lock *l, struct wait *w, uint32_t word)
{
	bool monitored = fgi_monitor_alive(w->now);

	if (monitored ? should_rest(l, w, word) : w->real_time || w->now - w->since > FGI_SPIN_UNMONITORED_NS)
		return rest(l, w);
	if (fgi_others_compete(w->now) || (w->head && !fgi_preempted_cs()))
		return true;
	w->since += fgi_yield(w->now);
	w->ops = fg_load_relaxed(&l->ops); /* how often it moved while the waiter was away says nothing */
	w->looked = false;
	return true;
}

static int give_up(struct fg_lock *l, struct wait *w)
{
	if (w->head)
		fg_fetch_and_relaxed(&l->word, ~DEMAND);
	if (leave_awake(l, w, false))
		fgi_futex_wake(upper_half(&l->waiters), 1);
	return ETIMEDOUT;
}

/* The word is free. Only the head takes a demanded lock, unless it does not come; the owner of a hot one comes back. */
static bool may_take(struct fg_lock *l, struct wait *w, uint32_t word, uint32_t moved)
{
	if (w->head)
		return true;
	if (word & DEMAND) {
		w->stood_back = moved ? 0 : w->stood_back + 1;
		if (w->stood_back == GRACE && !w->real_time)
			fgi_spin_yield(); /* the head may be queued behind this thread */
		return w->stood_back > GRACE;
	}
	if (!w->hot)
		return true;
	return w->awake ? w->looked && !moved : !awake_in(waiters_of(l));
}

static void heat(struct fg_lock *l, bool hot)
{
	uint64_t seen = fg_load_relaxed(&l->waiters), here = waiters_here(seen);

	fg_cas_relaxed(&l->waiters, seen, hot ? here | HOT : here & ~HOT);
}

/* Does the owner come back before a waiter gets the lock? Once a waiter has seen that twice, less how often it has seen
 * another owner, the lock is hot. */
static void watch_owner(struct fg_lock *l, struct wait *w, uint32_t word, uint32_t moved)
{
	uint32_t owner = word & FG_OWNER_MASK;

	if (!owner)
		return;
	if (w->looked && moved) {
		w->returns += owner == w->owner ? 1 : -1;
		if (!w->hot && w->returns == RETURNS)
			heat(l, true);
	}
	w->owner = owner;
}

static void become_fast(struct fg_lock *l, struct wait *w)
{
	uint64_t seen = fg_load_relaxed(&l->waiters), here = waiters_here(seen);

	if (!(here & FAST))
		w->fast = fg_cas_relaxed(&l->waiters, seen, here | FAST) == seen;
}

static inline uint32_t slow_pauses(void)
{
	uint32_t pauses = FIRST_PAUSES * usable_cpus();

	return pauses < SLOW_PAUSES ? pauses : SLOW_PAUSES;
}

/* How long to the next look. A waiter at a hot lock looks eight times a lease, and once more where its owner may have
 * gone. */
static void back_off(struct wait *w, uint32_t word, uint32_t moved)
{
	uint32_t pauses;

	if (w->head || !w->looked || !w->hot)
		w->pauses = !w->awake || w->head || w->hot || w->fast ? FIRST_PAUSES : slow_pauses();
	else if (moved > LEASE / 8 && w->pauses > FIRST_PAUSES)
		w->pauses /= 2;
	else if (moved && moved <= LEASE / 8 && w->pauses < LEASE)
		w->pauses *= 2;
	pauses = w->hot && !w->head && is_free(word) && moved ? FIRST_PAUSES * 4 : w->pauses;
	w->looked = true;
	w->spun += pauses;
	fgi_back_off(pauses);
}

static bool take_waited(struct fg_lock *l, struct wait *w, uint32_t word)
{
	if (!take(l, word, word & LAST_SLEEPS))
		return false;
	if (w->hot && w->awake && (!w->head || w->returns < 0)) /* its owner has gone, or others have it */
		heat(l, false);
	if (w->awake && leave_awake(l, w, one_in(w->ops, SHARE)))
		fg_fetch_or_relaxed(&l->word, WAKE);
	return true;
}

static void look_at_clock(struct fg_lock *l, struct wait *w, uint32_t word, uint32_t moved)
{
	w->now = fgi_now_ns(CLOCK_MONOTONIC);
	w->spun = 0;
	if (!w->moved_at) {
		w->since = w->moved_at = w->now;
		w->real_time = fgi_real_time();
	} else if (moved) {
		w->moved_at = w->now;
	}
	w->hot = waiters_of(l) & HOT;
	if (!w->head && !(word & DEMAND) && w->ops - w->joined > LEASE)
		w->head = fg_cas_relaxed(&l->word, word, word | DEMAND) == word;
}

/* Returns 0 with the lock, ETIMEDOUT at the deadline. */
__attribute__((noinline)) static int slow(struct fg_lock *l, const struct fgi_deadline *deadline)
{
	struct wait w = {.deadline = deadline, .ops = fg_load_relaxed(&l->ops), .hot = waiters_of(l) & HOT};
	uint32_t uncounted; /* pauses, before it counts itself */

	uncounted = all_may_stay() ? SPIN_PAUSES / 2 : 0;
	for (;;) {
		uint32_t word = fg_load_acquire(&l->word), moved = fg_load_relaxed(&l->ops) - w.ops;

		w.ops += moved;
		w.head = w.head && (word & DEMAND);
		if (is_free(word) && may_take(l, &w, word, moved)) {
			if (take_waited(l, &w, word))
				return 0;
			continue;
		}
		if (!w.awake && w.spun >= uncounted) {
			if ((fgi_past_deadline(deadline) && !is_free(word)) || !begin_wait(l, &w))
				return ETIMEDOUT;
			continue;
		}
		if (w.spun >= SPIN_PAUSES) {
			look_at_clock(l, &w, word, moved);
			if (fgi_past_deadline(deadline) && !is_free(word))
				return give_up(l, &w);
			if (!is_free(word) && !give_way(l, &w, word))
				return ETIMEDOUT;
			if (w.awake && !w.fast && !w.hot)
				become_fast(l, &w);
		}
		watch_owner(l, &w, word, moved);
		back_off(&w, word, moved);
	}
}

/* ---- the contract ------------------------------------------------------------------------------------------------ */

static inline bool fgi_trylock(struct fg_lock *l)
{
	uint32_t word;

	while (is_free(word = fg_load_relaxed(&l->word))) { /* a waiter may change a flag meanwhile */
		if (take(l, word, word & LAST_SLEEPS))
			return true;
	}
	return false;
}

static inline void fgi_lock(struct fg_lock *l)
{
	if (fg_unlikely(fg_load_relaxed(&l->word) != 0 || !take(l, 0, 0)))
		slow(l, &FGI_NEVER);
}

static inline int fgi_timedlock(struct fg_lock *l, struct fgi_deadline until)
{
	return take(l, 0, 0) ? 0 : slow(l, &until);
}

/* Returns whether LAST_SLEEPS was set, and kept. After it the word may belong to other memory. */
static inline bool release(struct fg_lock *l, uint32_t kept)
{
	bool last_sleeps;

	fgi_intent_restore(&l->word);
	last_sleeps = fgi_asymmetric_release(&l->word, kept);
	fgi_intent_clear(&l->word);
	return last_sleeps;
}

__attribute__((noinline)) static void release_and_wake(struct fg_lock *l)
{
	uint32_t word = fg_load_relaxed(&l->word), last = word & LAST_SLEEPS;

	if (release(l, last ? DEMAND : DEMAND | LAST_SLEEPS) || last)
		fgi_futex_wake(&l->word, 1);
	if (word & WAKE)
		fgi_futex_wake(upper_half(&l->waiters), 1);
}

static inline void fgi_unlock(struct fg_lock *l)
{
	if (fg_unlikely(fg_load_relaxed(&l->word) & (WAKE | LAST_SLEEPS)))
		release_and_wake(l);
	else if (fg_unlikely(release(l, DEMAND | LAST_SLEEPS))) /* it was set after the look */
		fgi_futex_wake(&l->word, 1);
}
