/* SPDX-License-Identifier: MIT */
#include "sync/rwlock.h"

#include <errno.h>

#include "runtime/arch/arch.h"
#include "runtime/cancel.h"
#include "runtime/cleanup.h"
#include "runtime/clock.h"
#include "runtime/policy.h"
#include "runtime/spin.h"
#include "runtime/spin_budget.h"
#include "sync/awake.h"
#include "sync/handover.h"
#include "sync/parked.h"

#define FIRST_PASS_NS 10000000u /* for so long after that a writer keeps readers out */
#define LONGEST_PASS_NS 1280000000u
#define MOST_PAUSES 64u   /* between two looks without a yield; half as many before the first: 1 to 6 us in all */
#define STAYS 2           /* times FGI_AWAKE_NS, before a sleep and after each */
#define TRIES 64          /* lost to other threads while awake, before the thread parks */
#define UNBIASED_TIMES 9u /* the bias rests for so many times as long as ending it took */
#define HANDED_TIMES 9u   /* and so do hand-overs: a thread that is handed the lock may take long to run */

/* ---- a waiter ---------------------------------------------------------------------------------------------------- */

struct wait {
	struct fgi_parked node;
	struct fgi_rwlock *lock;
	struct fgi_deadline deadline;
	uint32_t tries;
	bool exempt; /* a reader that RESERVED does not keep out */
	bool polite; /* a reader that an awake writer keeps out */
	bool began, slept;
	bool parked;      /* in the list, or taken out of it by another thread, which tells it */
	bool suspended;   /* the caller's asynchronous cancellation, except in the sleep */
	bool woken;       /* WOKEN stands for this thread */
	bool abandoned;   /* its cleanup handler has run */
	uint64_t act_ns;  /* when a parked thread is to do something about it; 0: never */
	uint64_t pass_ns; /* how long its next reservation lasts */
};

static struct wait wait_at(struct fgi_rwlock *l, bool writer, struct fgi_deadline until)
{
	return (struct wait){
		.node = {.object = l, .writer = writer, .self = fgi_self()},
		.lock = l,
		.deadline = until,
		.exempt = !writer && !fgi_rw_writers_first(l) && fgi_reading > 0,
		.polite = !writer && fgi_reading == 0,
		.suspended = fgi_async_suspend(),
		.pass_ns = FIRST_PASS_NS,
	};
}

static bool takeable(const struct wait *w, uint64_t word)
{
	return w->node.writer ? fgi_rw_writable(word) : fgi_rw_readable(word, w->exempt);
}

/* A writer also has something to do where readers stand in the table. */
static bool invites(const struct wait *w, uint64_t word)
{
	return takeable(w, word) || (w->node.writer && (word & FGI_RW_ENTRIES));
}

static bool is_kept_out(const struct wait *w)
{
	return w->polite && (fg_load_relaxed(&w->lock->word) & FGI_RW_AWAITED);
}

static void unset_awaited(struct fgi_rwlock *l)
{
	if (fg_load_relaxed(&l->word) & FGI_RW_AWAITED)
		fg_fetch_and_relaxed(&l->word, ~FGI_RW_AWAITED);
}

static bool worth_a_try(const void *waiter)
{
	const struct wait *w = waiter;
	uint64_t word = fg_load_relaxed(&w->lock->word);

	if (w->node.writer && !fgi_rw_written(word) && (word & FGI_RW_READERS) > FGI_RW_READER &&
	    !(word & FGI_RW_AWAITED))
		fg_fetch_or_relaxed(&w->lock->word, FGI_RW_AWAITED);
	return invites(w, word) && !is_kept_out(w);
}

/* Awake, until the lock is worth a try. A thread first pauses without a yield, for less than a sleep costs, whatever
 * the monitor says: most sections are over by then. Then it stays awake as at other objects, but also after a sleep,
 * and whatever earlier waits have come to: a writer that sleeps again at once finds the lock read at each wake-up, and
 * a reader that does not wait lets no writer in. Otherwise nearly all threads could end as sleeping writers, which wake
 * one at a time. */
static bool stay_awake(struct wait *w)
{
	bool polite = w->polite, ready = false;
	struct fgi_awake awake;

	for (uint32_t n = MOST_PAUSES / 2; n && n <= MOST_PAUSES && !ready; n *= 2) {
		for (uint32_t i = 0; i < n; i++)
			fg_pause();
		ready = worth_a_try(w);
	}
	for (uint32_t n = 0; n < STAYS && !ready; n++) {
		fgi_awake_begin(&awake, NULL);
		ready = fgi_awake_stay(&awake, worth_a_try, w, w->deadline);
	}
	/* A writer that goes on to sleep keeps nobody out; nor does one of which only the hint is left. */
	if (!ready && (w->node.writer || polite))
		unset_awaited(w->lock);
	w->polite = false;
	return ready || (polite && worth_a_try(w));
}

/* ---- parking ----------------------------------------------------------------------------------------------------- */

/* A lock that prefers writers was released, and a writer was woken that has not come yet. */
static bool writer_comes(const struct fgi_rwlock *l, uint64_t word)
{
	const uint32_t both = FGI_RW_WOKEN | FGI_RW_RESERVED;

	return fgi_rw_writers_first(l) && (word & both) == both;
}

/* Puts the waiter into the list unless the lock can be taken now. */
static bool enter_list(struct wait *w)
{
	struct fgi_rwlock *l = w->lock;
	uint32_t forks = fgi_forks; /* first: if a signal handler forks after that, the child tries again (P6) */
	struct fgi_parked_list *list = fgi_parked_lock(l);
	enum fgi_parked_state state = FGI_PARKED_AWAKE;
	struct fgi_parked *chain = NULL;
	uint64_t word, next;

	w->node.reserved = w->node.writer && fgi_rw_writers_first(l);
	w->node.forks = forks;
	w->node.state = FGI_PARKED_AWAKE;
	do {
		word = fg_load_relaxed(&l->word);
		if (invites(w, word)) { /* the word that is exchanged below, not a later one */
			fgi_parked_unlock(list);
			return false;
		}
		next = word | FGI_RW_PARKED | (w->node.reserved ? FGI_RW_RESERVED : 0);
		/* Without waiters, also in the child of a fork, nothing is left of the flags. */
		if (!fgi_parked_next(list, l, NULL) && (w->node.writer || !writer_comes(l, word))) {
			next &= ~FGI_RW_WOKEN;
			if (!w->node.reserved && (word & FGI_RW_RESERVED))
				next &= fgi_rw_readable(word, true) ? ~(FGI_RW_RESERVED | FGI_RW_PARKED)
								    : ~FGI_RW_RESERVED;
		}
		if (w->woken)
			next &= ~FGI_RW_WOKEN;
	} while (fg_cas_relaxed(&l->word, word, next) != word);
	if (!(next & FGI_RW_PARKED)) {
		fgi_parked_unlock(list);
		return false;
	}
	fgi_parked_add(list, &w->node, w->slept);
	fg_store_relaxed(&w->parked, true);
	if (w->woken) /* a reader that was woken, but is kept out of the free lock by a writer: its turn goes on */
		chain = fgi_rw_let_in(l, list, &state);
	w->woken = false;
	fgi_parked_unlock(list);
	fgi_rw_tell(chain, state);
	return true;
}

/* With the list locked, and the waiter in it: sets RESERVED, but not on a lock that can be taken: no release would
 * hand it over. Then the waiter leaves the list and tries. */
static void reserve(struct wait *w, struct fgi_parked_list *list)
{
	struct fgi_rwlock *l = w->lock;
	uint64_t word;

	do {
		word = fg_load_relaxed(&l->word);
		if (takeable(w, word)) {
			fgi_parked_remove(list, &w->node);
			fgi_rw_set_flags(l, list);
			fg_store_relaxed(&w->node.state, FGI_PARKED_RETRY);
			return;
		}
	} while (fg_cas_relaxed(&l->word, word, word | FGI_RW_RESERVED) != word);
	w->node.reserved = true;
}

/* No writer waits, but readers are kept out. In the child of a fork the writer that was to come may not exist. */
static bool kept_out_by_nobody(const struct wait *w, const struct fgi_parked_list *list)
{
	const struct fgi_parked *p = NULL;

	if (w->node.writer || !fgi_rw_readable(fg_load_relaxed(&w->lock->word), true))
		return false;
	while ((p = fgi_parked_next(list, w->lock, p)) != NULL)
		if (p->writer)
			return false;
	return true;
}

/* The lock went to others for FGI_RW_RESERVE_NS: reserves it. Or a writer has kept readers out for pass_ns: lets them
 * in. */
static void act(struct wait *w)
{
	struct fgi_rwlock *l = w->lock;
	struct fgi_parked_list *list = fgi_parked_lock(l);
	enum fgi_parked_state state = FGI_PARKED_AWAKE;
	struct fgi_parked *chain = NULL;
	uint64_t now = fgi_now_ns(CLOCK_MONOTONIC);

	/* Also of one that is about to be told: it goes on sleeping, for the thread that tells it may need its CPU. */
	w->act_ns = now + (w->node.writer ? FGI_RW_RESERVE_NS : w->pass_ns);
	if (fgi_parked_listed(&w->node)) {
		bool passes = w->node.writer && w->node.reserved;

		if (kept_out_by_nobody(w, list)) {
			chain = fgi_rw_let_in(l, list, &state);
		} else if (passes) {
			w->node.reserved = false;
			fgi_rw_set_flags(l, list);
			chain = fgi_rw_let_in(l, list, &state);
		} else if (!fgi_rw_rests(&l->unreserved_until, now)) {
			reserve(w, list);
			w->act_ns = now + w->pass_ns;
		}
		if (passes || !w->node.writer)
			w->pass_ns = w->pass_ns < LONGEST_PASS_NS ? w->pass_ns * 2 : LONGEST_PASS_NS;
	}
	fgi_parked_unlock(list);
	fgi_rw_tell(chain, state);
}

/* The deadline is reached. Returns the final state: FGI_PARKED_AWAKE if nobody has told the waiter anything. */
static enum fgi_parked_state leave_list(struct wait *w)
{
	struct fgi_rwlock *l = w->lock;
	struct fgi_parked_list *list = fgi_parked_lock(l);
	enum fgi_parked_state state = FGI_PARKED_AWAKE;
	struct fgi_parked *chain = NULL;
	bool listed = fgi_parked_listed(&w->node);

	if (listed) {
		fgi_parked_remove(list, &w->node);
		fg_store_relaxed(&w->parked, false);
		fgi_rw_set_flags(l, list);
		chain = fgi_rw_let_in(l, list, &state);
	}
	fgi_parked_unlock(list);
	fgi_rw_tell(chain, state);
	if (listed)
		return FGI_PARKED_AWAKE;
	return fgi_parked_await(&w->node) ? fgi_parked_state(&w->node) : FGI_PARKED_RETRY;
}

/* Sleeps until told, or until the deadline (FGI_PARKED_AWAKE). */
static enum fgi_parked_state sleep_in_list(struct wait *w)
{
	const struct fgi_deadline *p = &w->deadline;
	enum fgi_parked_state state;
	int result;

	w->slept = true;
	while ((state = fgi_parked_state(&w->node)) <= FGI_PARKED_ASLEEP) {
		if (w->node.forks != fgi_forks) /* a signal handler forked (P6) */
			return FGI_PARKED_RETRY;
		fgi_async_resume(w->suspended);
		result = fgi_parked_sleep(&w->node, FGI_PARKED_ASLEEP, p, w->act_ns);
		fgi_async_suspend();
		if (result != ETIMEDOUT)
			continue;
		if (fgi_past_deadline(p))
			return leave_list(w);
		if (w->act_ns && fgi_now_ns(CLOCK_MONOTONIC) >= w->act_ns)
			act(w);
	}
	return state;
}

/* This thread is the owner, and runs: the time in between is lost to all others. */
static void handed(struct wait *w)
{
	uint64_t now = fgi_now_ns(CLOCK_MONOTONIC), lost = (now - w->node.told_ns) * HANDED_TIMES;

	if (lost > FGI_RW_RESERVE_NS)
		fgi_rw_rest(&w->lock->unreserved_until, now, lost);
}

/* Waits until the lock is worth a try (0), was handed over (EALREADY), or the deadline is reached (ETIMEDOUT). */
static int wait_turn(struct wait *w)
{
	if (!w->began) {
		w->began = true;
		w->node.since_ns = fgi_now_ns(CLOCK_MONOTONIC);
		w->act_ns = w->node.since_ns + FGI_RW_RESERVE_NS;
		if (w->node.writer && fgi_rw_writers_first(w->lock))
			w->act_ns = 0; /* reserved from the start, for as long as it takes */
	}
	if (w->tries++ < TRIES && stay_awake(w))
		return 0;
	if (fgi_past_deadline(&w->deadline))
		return ETIMEDOUT;
	w->node.priority = w->node.writer ? fgi_priority() : 0;
	if (!enter_list(w))
		return 0;
	switch (sleep_in_list(w)) {
	case FGI_PARKED_OWNER:
		fg_store_relaxed(&w->parked, false);
		handed(w);
		return EALREADY;
	case FGI_PARKED_RETRY:
		/* If it was its own clock that told it, the next release wakes another one too many. */
		fg_store_relaxed(&w->woken, true);
		fg_store_relaxed(&w->parked, false);
		return 0;
	default:
		return ETIMEDOUT;
	}
}

/* The wait is over, with the lock or without. */
static void end_wait(struct wait *w, int result)
{
	struct fgi_parked *chain;
	struct fgi_parked_list *list;
	enum fgi_parked_state state = FGI_PARKED_AWAKE;

	if (!w->woken || result == 0)
		return;
	list = fgi_parked_lock(w->lock);
	fg_store_relaxed(&w->woken, false);
	fg_fetch_and_relaxed(&w->lock->word, ~FGI_RW_WOKEN);
	fgi_rw_set_flags(w->lock, list);
	chain = fgi_rw_let_in(w->lock, list, &state);
	fgi_parked_unlock(list);
	fgi_rw_tell(chain, state);
}

/* A signal handler jumps out of the wait, or an asynchronous cancellation ends its sleep. The list, which other locks
 * share, must not keep a node of a stack that goes; a turn is passed on, and a lock that was handed over is given up
 * again. A writer that has just taken the lock keeps it. */
static void abandoned(void *waiter)
{
	struct wait *w = waiter;
	enum fgi_parked_state state = FGI_PARKED_AWAKE;

	fgi_async_suspend();
	if (w->abandoned) /* a cancellation has come at the end of this, in a jump: glibc then runs it again */
		return;
	w->abandoned = true;
	if (w->parked) {
		state = leave_list(w);
		w->woken = w->woken || state == FGI_PARKED_RETRY;
	}
	end_wait(w, ETIMEDOUT);
	if (w->node.writer &&
	    (state == FGI_PARKED_OWNER || (fg_load_relaxed(&w->lock->word) & FG_OWNER_MASK) != w->node.self))
		fgi_intent_clear(fgi_rw_owner(w->lock));
	if (state == FGI_PARKED_OWNER && w->node.writer)
		fgi_rwlock_write_unlock_slow(w->lock);
	else if (state == FGI_PARKED_OWNER)
		fgi_rwlock_read_unlock_slow(w->lock, false);
	fgi_async_resume(w->suspended);
}

/* ---- readers ----------------------------------------------------------------------------------------------------- */

/* Readers that meet one another at the word enter the table from now on. */
void fgi_rwlock_crowded(struct fgi_rwlock *l)
{
	const uint64_t waited =
		FGI_RW_OWNER | FGI_RW_PARKED | FGI_RW_RESERVED | FGI_RW_WOKEN | FGI_RW_BIASED | FGI_RW_AWAITED;
	uint64_t word = fg_load_relaxed(&l->word);

	if ((word & waited) || fgi_rw_writers_first(l) || !fgi_rw_may_bias(l, word))
		return;
	fg_store_relaxed(&fgi_readers_used, 1);
	/* release: fgi_readers_used before BIASED */
	fg_cas_release(&l->word, word, word | FGI_RW_BIASED | FGI_RW_ENTRIES);
}

static int read_wait(struct wait *w)
{
	struct fgi_rwlock *l = w->lock;
	int result;

	if ((fg_load_relaxed(&l->word) & FG_OWNER_MASK) == w->node.self)
		return EDEADLK;
	for (;;) {
		uint64_t word = fg_load_relaxed(&l->word);

		if (!fgi_rw_readable(word, w->exempt) || is_kept_out(w)) {
			result = wait_turn(w);
			if (result == EALREADY) { /* counted by the thread that handed the lock over */
				fgi_rwlock_reads();
				return 0;
			}
			if (result)
				return result;
			continue;
		}
		if (word & FGI_RW_FULL)
			return EAGAIN;
		if (!fgi_rwlock_join(l, word, FGI_RW_OWNER | FGI_RW_FULL | (w->exempt ? 0 : FGI_RW_RESERVED)))
			continue;
		if (w->woken)
			fg_fetch_and_relaxed(&l->word, ~FGI_RW_WOKEN);
		return 0;
	}
}

int fgi_rwlock_read_slow(struct fgi_rwlock *l, struct fgi_deadline until)
{
	struct _pthread_cleanup_buffer buffer;
	struct wait w;
	int result;

	if ((fg_load_relaxed(&l->word) & FGI_RW_BIASED) && fgi_rwlock_read_biased(l))
		return 0;
	w = wait_at(l, false, until);
	_pthread_cleanup_push(&buffer, abandoned, &w);
	result = read_wait(&w);
	end_wait(&w, result);
	_pthread_cleanup_pop(&buffer, 0);
	fgi_rw_resume(l, w.suspended, result);
	return result;
}

int fgi_rwlock_try_read(struct fgi_rwlock *l)
{
	uint64_t closed = FGI_RW_OWNER | FGI_RW_FULL | (fgi_rw_writers_first(l) ? FGI_RW_RESERVED : 0), word;

	while (fgi_rw_readable(word = fg_load_relaxed(&l->word), !fgi_rw_writers_first(l))) {
		if (word & FGI_RW_FULL)
			return EAGAIN;
		if ((word & FGI_RW_BIASED) && fgi_rwlock_read_biased(l))
			return 0;
		if (fgi_rwlock_join(l, word, closed))
			return 0;
	}
	return EBUSY;
}

void fgi_rwlock_read_unlock_slow(struct fgi_rwlock *l, bool counted)
{
	if ((fg_load_relaxed(&l->word) & FGI_RW_ENTRIES) && fgi_readers_leave(fgi_readers_entry(l), l))
		return;
	for (;;) {
		uint64_t word = fg_load_relaxed(&l->word);

		if (!(word & FGI_RW_READERS)) { /* what another thread has locked */
			uint64_t *entry = fgi_readers_find(l);

			if (!entry && counted)
				fgi_rwlock_reads(); /* nobody reads: the caller has given up another lock's count */
			if (!entry || fgi_readers_leave(entry, l))
				return;
			continue;
		}
		if (fgi_rw_subtracts(word)) {
			fgi_rwlock_read_leave(l);
			return;
		}
		if (fgi_rw_last(word) && fgi_rw_wakes(word)) {
			fgi_rw_release(l, FGI_RW_READER);
			return;
		}
		if (fg_cas_release(&l->word, word, word - FGI_RW_READER) == word)
			return;
	}
}

/* ---- writers ----------------------------------------------------------------------------------------------------- */

struct entry_wait {
	const uint64_t *entry;
	const struct fgi_rwlock *lock;
};

static bool entry_left(const void *argument)
{
	const struct entry_wait *e = argument;

	return fgi_readers_left(e->entry, e->lock);
}

static void sleep_until_left(struct wait *w, uint64_t *entry)
{
	fgi_async_resume(w->suspended);
	fgi_readers_sleep(entry, w->lock, w->deadline);
	fgi_async_suspend();
}

/* Waits until no reader stands in the table. */
static int drain(struct wait *w)
{
	const struct fgi_deadline *p = &w->deadline;
	struct fgi_rwlock *l = w->lock;
	uint64_t began = fgi_now_ns(CLOCK_MONOTONIC), now;
	uint64_t *entry;

	fgi_rw_rest(&l->unbiased_until, began, FGI_RW_RESERVE_NS);
	while ((entry = fgi_rw_end_bias(l)) != NULL) {
		struct entry_wait e = {entry, l};
		struct fgi_awake awake;
		bool slept = false;

		fgi_awake_begin(&awake, entry);
		if (!fgi_awake_stay(&awake, entry_left, &e, *p))
			while (!entry_left(&e) && !fgi_past_deadline(p)) {
				slept = true;
				sleep_until_left(w, entry);
			}
		fgi_awake_end(&awake, slept, 0);
		if (fgi_past_deadline(p))
			return ETIMEDOUT;
	}
	now = fgi_now_ns(CLOCK_MONOTONIC);
	fgi_rw_rest(&l->unbiased_until, now, UNBIASED_TIMES * (now - began));
	return 0;
}

static int write_wait(struct wait *w)
{
	struct fgi_rwlock *l = w->lock;
	int result;

	if ((fg_load_relaxed(&l->word) & FG_OWNER_MASK) == w->node.self)
		return EDEADLK;
	for (;;) {
		uint64_t word = fg_load_relaxed(&l->word), next;

		if (word & FGI_RW_ENTRIES) {
			result = drain(w);
			if (result)
				return result;
			continue;
		}
		if (!fgi_rw_writable(word)) {
			result = wait_turn(w);
			if (result)
				return result == EALREADY ? 0 : result;
			continue;
		}
		next = (word & ~(FGI_RW_AWAITED | (w->woken ? FGI_RW_WOKEN : 0))) | w->node.self;
		if (fg_cas_acquire(&l->word, word, next) == word)
			return 0;
	}
}

int fgi_rwlock_write_slow(struct fgi_rwlock *l, struct fgi_deadline until)
{
	struct wait w = wait_at(l, true, until);
	struct _pthread_cleanup_buffer buffer;
	int result;

	fgi_intent_set(fgi_rw_owner(l));
	_pthread_cleanup_push(&buffer, abandoned, &w);
	result = write_wait(&w);
	unset_awaited(l);
	end_wait(&w, result);
	_pthread_cleanup_pop(&buffer, 0);
	if (result)
		fgi_intent_clear(fgi_rw_owner(l));
	fgi_rw_resume(l, w.suspended, result);
	return result;
}

int fgi_rwlock_try_write(struct fgi_rwlock *l)
{
	uint64_t word = fg_load_relaxed(&l->word), self = fgi_self();

	if ((word & FGI_RW_ENTRIES) && !(word & FGI_RW_READERS)) {
		if (fgi_parked_is_inside())
			return EBUSY; /* in a handler (P7) */
		fgi_rw_end_bias(l);
		word = fg_load_relaxed(&l->word);
	}
	fgi_intent_set(fgi_rw_owner(l));
	while (fgi_rw_writable(word)) {
		uint64_t found = fg_cas_acquire(&l->word, word, word | self);

		if (found == word)
			return 0;
		word = found;
	}
	fgi_intent_clear(fgi_rw_owner(l));
	return EBUSY;
}

void fgi_rwlock_write_unlock_foreign(struct fgi_rwlock *l)
{
	uint32_t owner = fg_load_relaxed(fgi_rw_owner(l)) & FG_OWNER_MASK;

	if (fgi_foreign_carried(owner))
		fgi_held_lower();
	else
		fgi_foreign_note(owner, fgi_rw_owner(l));
	fgi_rwlock_write_unlock_slow(l);
}

void fgi_rwlock_write_unlock_slow(struct fgi_rwlock *l)
{
	for (;;) {
		uint64_t word = fg_load_relaxed(&l->word);

		if (fgi_rw_wakes(word)) {
			fgi_rw_release(l, FGI_RW_OWNER);
			return;
		}
		if (fg_cas_release(&l->word, word, word & ~FGI_RW_OWNER) == word)
			return;
	}
}
