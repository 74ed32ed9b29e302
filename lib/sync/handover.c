/* SPDX-License-Identifier: MIT */
#include "sync/handover.h"

#include <stddef.h>

#include "runtime/cancel.h"
#include "runtime/cleanup.h"
#include "runtime/clock.h"

/* The parked waiters. With the list locked. */
struct census {
	struct fgi_parked *writer; /* the first of the highest priority */
	struct fgi_parked *reader; /* the first */
	uint64_t now_ns;
	uint32_t readers;
	bool more_writers, reader_reserved, more_writers_reserved;
	bool writer_due, reader_due, more_writers_due; /* have waited for so long that the lock is to be handed over */
};

static struct census count(const struct fgi_parked_list *list, const struct fgi_rwlock *l)
{
	struct census c = {.now_ns = fgi_now_ns(CLOCK_MONOTONIC)};
	uint64_t due_ns = c.now_ns - FGI_RW_RESERVE_NS;

	if (fgi_rw_rests(&l->unreserved_until, c.now_ns))
		due_ns = 0;
	for (struct fgi_parked *p = fgi_parked_next(list, l, NULL); p; p = fgi_parked_next(list, l, p)) {
		if (!p->writer) {
			c.reader_due |= p->since_ns <= due_ns;
			c.reader = c.reader ? c.reader : p;
			c.readers++;
			c.reader_reserved |= p->reserved;
		} else if (!c.writer || p->priority > c.writer->priority) {
			if (c.writer) {
				c.more_writers = true;
				c.more_writers_due |= c.writer_due;
				c.more_writers_reserved |= c.writer->reserved;
			}
			c.writer = p;
			c.writer_due = p->since_ns <= due_ns;
		} else {
			c.more_writers_due |= p->since_ns <= due_ns;
			c.more_writers = true;
			c.more_writers_reserved |= p->reserved;
		}
	}
	return c;
}

/* Takes the writer out of the list, or all readers. Returns them by `next`. */
static struct fgi_parked *take_out(struct fgi_parked_list *list, const struct fgi_rwlock *l, const struct census *c,
				   bool writer)
{
	struct fgi_parked *chain = NULL, **end = &chain, *p, *next;

	for (p = writer ? c->writer : c->reader; p; p = writer ? NULL : next) {
		next = fgi_parked_next(list, l, p);
		if (p->writer != writer)
			continue;
		fgi_parked_remove(list, p);
		p->told_ns = c->now_ns;
		p->next = NULL;
		*end = p;
		end = &p->next;
	}
	return chain;
}

void fgi_rw_tell(struct fgi_parked *chain, enum fgi_parked_state state)
{
	while (chain) {
		struct fgi_parked *next = chain->next;

		fgi_parked_tell(chain, state);
		chain = next;
	}
}

/* What is left of the flags once the chosen ones have gone. */
static uint64_t flags_after(const struct census *c, bool writer_goes)
{
	bool writers = writer_goes ? c->more_writers : c->writer != NULL;
	bool reserved = writer_goes ? c->more_writers_reserved || c->reader_reserved
				    : (c->writer && c->writer->reserved) || c->more_writers_reserved;

	if (!writers && (!writer_goes || !c->readers))
		return 0;
	return FGI_RW_PARKED | (reserved ? FGI_RW_RESERVED : 0);
}

/* Whose turn is it when a writer, or the last reader, leaves? */
static bool writer_is_next(const struct fgi_rwlock *l, const struct census *c, bool after_writer)
{
	if (!c->writer || !c->reader)
		return c->writer != NULL;
	return !after_writer || (fgi_rw_writers_first(l) && !c->reader_reserved);
}

/* Will the others have to wait anew for the lock to be handed over? */
static bool paces(const struct census *c, bool writer)
{
	return writer ? c->writer_due : c->reader_due;
}

/* The word after a release: handed over (then it sets *state to FGI_PARKED_OWNER), or free and somebody woken
 * (FGI_PARKED_RETRY), or just free. */
static uint64_t word_after(const struct fgi_rwlock *l, uint64_t word, const struct census *c, bool writer,
			   enum fgi_parked_state *state)
{
	const struct fgi_parked *first = writer ? c->writer : c->reader;
	const uint64_t entries = FGI_RW_BIASED | FGI_RW_ENTRIES;
	uint64_t left = word & (entries | FGI_RW_READERS | FGI_RW_WOKEN), flags;

	if (!first)
		return left;
	flags = flags_after(c, writer);
	if (!(writer && (word & entries)) && (c->writer_due || c->reader_due || c->more_writers_due)) {
		*state = FGI_PARKED_OWNER;
		if (paces(c, writer) && !fgi_rw_writers_first(l))
			flags &= ~FGI_RW_RESERVED;
		return (left | flags) + (writer ? first->self : c->readers * FGI_RW_READER);
	}
	if (word & FGI_RW_WOKEN)
		return left | (word & (FGI_RW_PARKED | FGI_RW_RESERVED));
	*state = FGI_PARKED_RETRY;
	if (writer && fgi_rw_writers_first(l)) /* readers are kept out until it comes */
		flags |= FGI_RW_PARKED | FGI_RW_RESERVED;
	return left | FGI_RW_WOKEN | flags;
}

/* The lock has been handed to a thread that was due. The others wait until it may be handed over again: else, once
 * hand-overs take so long that all are due, each turn is a hand-over and waits for a thread to wake. */
static void rest(struct fgi_rwlock *l, struct fgi_parked_list *list, uint64_t now_ns)
{
	fgi_rw_rest(&l->unreserved_until, now_ns, FGI_RW_RESERVE_NS);
	for (struct fgi_parked *p = fgi_parked_next(list, l, NULL); p; p = fgi_parked_next(list, l, p))
		p->reserved = p->writer && fgi_rw_writers_first(l);
}

/* With the list locked, which it unlocks. `held` is what the calling thread has of the word: FGI_RW_OWNER,
 * FGI_RW_READER, or nothing. Then there is something to do only if nobody else has the lock, or is on the way. */
static void release(struct fgi_rwlock *l, struct fgi_parked_list *list, uint64_t held)
{
	struct census c = count(list, l);
	bool writer = writer_is_next(l, &c, held == FGI_RW_OWNER);
	struct fgi_parked *chain = NULL;
	enum fgi_parked_state state;
	uint64_t word, next;

	do {
		word = fg_load_relaxed(&l->word);
		state = FGI_PARKED_AWAKE;
		if (!held && ((word & FGI_RW_HELD) || !fgi_rw_wakes(word)))
			break;
		next = held == FGI_RW_OWNER ? word & ~FGI_RW_OWNER : word - held;
		if (held != FGI_RW_READER || fgi_rw_last(word))
			next = word_after(l, next, &c, writer, &state);
	} while (fg_cas_acq_rel(&l->word, word, next) != word);
	if (state != FGI_PARKED_AWAKE)
		chain = take_out(list, l, &c, writer);
	if (state == FGI_PARKED_OWNER && paces(&c, writer))
		rest(l, list, c.now_ns);
	fgi_parked_unlock(list);
	fgi_rw_tell(chain, state);
}

static void left_later(void *lock)
{
	fgi_rw_left(lock);
}

/* Looks at each lock at which a thread waits, in the order of their addresses. */
static void all_left_later(void)
{
	for (uint32_t i = 0; i < FGI_BUCKETS; i++) {
		struct fgi_parked_list *list = &fgi_parked_lists[i];
		const struct fgi_parked *p;
		const void *object = NULL;
		bool waits;

		do {
			fgi_parked_lock_list(list);
			p = fgi_parked_after(list, object);
			object = p ? p->object : NULL;
			waits = p && fgi_parked_first(list, object, 0); /* not at a condition variable */
			fgi_parked_unlock(list);
			if (waits)
				fgi_rw_left((struct fgi_rwlock *)(uintptr_t)object);
		} while (object);
	}
}

void fgi_rw_release(struct fgi_rwlock *l, uint64_t held)
{
	bool suspended = fgi_async_suspend();

	/* In a handler (P7) the lock becomes free now, as by a reader that subtracts itself. */
	if (!fgi_parked_postpone(left_later, l, all_left_later))
		release(l, fgi_parked_lock(l), held);
	else if (held == FGI_RW_OWNER)
		fg_fetch_and_release(&l->word, ~FGI_RW_OWNER);
	else
		fg_fetch_sub_release(&l->word, held);
	fgi_async_resume(suspended);
}

/* A thread in the list that waits for the lock stays there until the list is unlocked, so the lock exists for as long.
 * It may be another lock than the reader has left, made at the same address since. Then one more of its waiters is
 * woken, or handed the free lock if it is due, as by any reader that leaves that lock. If another thread has the lock
 * by now, or is on its way, it wakes the next. */
void fgi_rw_left(struct fgi_rwlock *l)
{
	bool suspended;
	struct fgi_parked_list *list;
	const struct fgi_parked *p;

	if (fgi_parked_postpone(left_later, l, all_left_later))
		return;
	suspended = fgi_async_suspend();
	list = fgi_parked_lock(l);
	p = fgi_parked_next(list, l, NULL);
	/* Threads of a condition variable may wait at a mutex that is at this address by now. They have a list. */
	if (p && !p->list)
		release(l, list, 0);
	else
		fgi_parked_unlock(list);
	fgi_async_resume(suspended);
}

struct fgi_parked *fgi_rw_let_in(struct fgi_rwlock *l, struct fgi_parked_list *list, enum fgi_parked_state *state)
{
	struct census c = count(list, l);
	bool writer = (c.writer && c.writer->reserved) || c.more_writers_reserved || !c.reader;
	uint64_t word, next;

	if (!c.writer && !c.reader)
		return NULL;
	do {
		word = fg_load_relaxed(&l->word);
		/* The thread that holds the lock, or is about to take it, lets the writer in. */
		if (fgi_rw_written(word) || (writer && (!fgi_rw_writable(word) || (word & FGI_RW_WOKEN))))
			return NULL;
		if (writer) {
			next = word | FGI_RW_WOKEN;
			*state = FGI_PARKED_RETRY;
		} else {
			next = (word & ~(FGI_RW_RESERVED | FGI_RW_PARKED)) + c.readers * FGI_RW_READER;
			next |= c.writer ? FGI_RW_PARKED : 0;
			*state = FGI_PARKED_OWNER;
		}
	} while (fg_cas_acquire(&l->word, word, next) != word); /* for the readers; pairs with the releases */
	return take_out(list, l, &c, writer);
}

void fgi_rw_set_flags(struct fgi_rwlock *l, const struct fgi_parked_list *list)
{
	uint64_t flags = 0, word;

	for (struct fgi_parked *p = fgi_parked_next(list, l, NULL); p; p = fgi_parked_next(list, l, p))
		flags |= FGI_RW_PARKED | (p->reserved ? FGI_RW_RESERVED : 0);
	do {
		word = fg_load_relaxed(&l->word);
	} while (fg_cas_relaxed(&l->word, word, (word & ~(FGI_RW_PARKED | FGI_RW_RESERVED)) | flags) != word);
}

static void give_up(void *lock)
{
	fgi_rwlock_unlock(lock);
}

void fgi_rw_resume(struct fgi_rwlock *l, bool suspended, int result)
{
	struct _pthread_cleanup_buffer buffer;

	if (fg_likely(!suspended))
		return;
	if (result == 0)
		_pthread_cleanup_push(&buffer, give_up, l);
	fgi_async_resume(suspended);
	if (result == 0)
		_pthread_cleanup_pop(&buffer, 0);
}

bool fgi_rw_may_bias(struct fgi_rwlock *l, uint64_t word)
{
	uint64_t now = fgi_now_ns(CLOCK_MONOTONIC);

	if (fgi_rw_rests(&l->unbiased_until, now))
		return false;
	if ((word & FGI_RW_ENTRIES) || !fg_load_relaxed(&fgi_readers_used) || !fgi_readers_find(l))
		return true;
	fgi_rw_rest(&l->unbiased_until, now, FGI_RW_RESERVE_NS);
	return false;
}

uint64_t *fgi_rw_end_bias(struct fgi_rwlock *l)
{
	bool suspended = fgi_async_suspend();
	struct fgi_parked_list *list = fgi_parked_lock(l);
	uint64_t *entry, word;

	do {
		fg_fetch_and_seq_cst(&l->word, ~FGI_RW_BIASED); /* pairs with fgi_rwlock_read_biased */
		entry = fgi_readers_find(l);
		word = fg_load_relaxed(&l->word);
	} while (!entry && ((word & FGI_RW_BIASED) || fg_cas_acq_rel(&l->word, word, word & ~FGI_RW_ENTRIES) != word));
	fgi_parked_unlock(list);
	fgi_async_resume(suspended);
	return entry;
}
