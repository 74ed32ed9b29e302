/* SPDX-License-Identifier: MIT */
#include "interpose/waitq.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "abi/flexguard_abi.h"
#include "interpose/atfork.h"
#include "runtime/atomic.h"
#include "runtime/futex.h"

/* A static lock and the queues with waiters that it guards. `word`: 0 free, 1 held, 2 held and perhaps waited for.
 *
 * A futex lock of its own, not the interposed one: it is held for some ten instructions and must do nothing else; and
 * a thread that holds it is in no critical section of the program's, which is all the monitor wants to know. */
struct bucket {
	uint32_t word;
	struct fgi_waitq *active;
} __attribute__((aligned(FG_CACHE_LINE)));

/* 8 KiB. Two condition variables in one bucket share a lock that is held for moments, nothing else: not a number that
 * needs tuning. */
#define BUCKET_BITS 7
static struct bucket buckets[1 << BUCKET_BITS];

/* Raised in the child of a fork, whose queues hold waiters that did not come along. Never 0. */
static uint32_t generation = 1;

static struct bucket *bucket_of(const struct fgi_waitq *q)
{
	/* Fibonacci hashing: neighbouring objects spread evenly. */
	return &buckets[(uint64_t)(uintptr_t)q * 0x9e3779b97f4a7c15ull >> (64 - BUCKET_BITS)];
}

static struct bucket *lock(const struct fgi_waitq *q)
{
	struct bucket *b = bucket_of(q);

	if (fg_unlikely(fg_cas_acquire(&b->word, 0, 1) != 0))
		while (fg_xchg_acquire(&b->word, 2) != 0)
			fgi_futex_wait(&b->word, 2, CLOCK_MONOTONIC, NULL);
	return b;
}

static void unlock(struct bucket *b)
{
	if (fg_unlikely(fg_xchg_release(&b->word, 0) == 2)) /* pairs with the acquires in lock */
		fgi_futex_wake(&b->word, 1);
}

/* All below: with the lock of q held. */
static bool active(const struct fgi_waitq *q)
{
	return q->first && q->generation == generation;
}

static void activate(struct bucket *b, struct fgi_waitq *q)
{
	q->last = NULL;
	q->generation = generation;
	q->next = b->active;
	b->active = q;
}

static void deactivate(struct bucket *b, struct fgi_waitq *q)
{
	struct fgi_waitq **link = &b->active;

	while (*link != q)
		link = &(*link)->next;
	*link = q->next;
	fg_store_relaxed(&q->first, NULL);
}

static void take_out(struct bucket *b, struct fgi_waitq *q, struct fgi_waiter *w)
{
	if (w->next)
		w->next->prev = w->prev;
	else
		q->last = w->prev;
	if (w->prev)
		w->prev->next = w->next;
	else
		fg_store_relaxed(&q->first, w->next);
	if (!q->first)
		deactivate(b, q);
}

/* release: pairs with the acquire that ends the waiter's sleep. The waiter may vanish with this store; the address
 * remains good for a wake (C5). */
static uint32_t *grant(struct fgi_waiter *w, enum fgi_waiter_state state)
{
	uint32_t *word = &w->state;

	fg_store_release(word, state);
	return word;
}

static uint32_t *grant_first(struct bucket *b, struct fgi_waitq *q)
{
	struct fgi_waiter *w = q->first;

	take_out(b, q, w);
	return grant(w, FGI_SIGNALLED);
}

void fgi_waitq_join(struct fgi_waitq *q, struct fgi_waiter *w)
{
	struct bucket *b = lock(q);

	if (!active(q))
		activate(b, q);
	w->next = NULL;
	w->prev = q->last;
	w->state = FGI_WAITING;
	if (q->last)
		q->last->next = w;
	else
		fg_store_relaxed(&q->first, w);
	q->last = w;
	unlock(b);
}

enum fgi_waiter_state fgi_waitq_leave(struct fgi_waitq *q, struct fgi_waiter *w)
{
	struct bucket *b = lock(q);
	uint32_t state = fg_load_acquire(&w->state);

	if (state == FGI_WAITING) {
		/* WAITING in a list of another generation: a signal handler forked, and nobody knows w here. */
		if (q->generation == generation)
			take_out(b, q, w);
		w->state = state = FGI_LEFT;
	}
	unlock(b);
	while (state == FGI_TAKEN) { /* C3: the broadcast still has to write to w */
		fgi_futex_wait(&w->state, state, CLOCK_MONOTONIC, NULL);
		state = fg_load_acquire(&w->state);
	}
	return state;
}

void fgi_waitq_signal(struct fgi_waitq *q)
{
	struct bucket *b = lock(q);
	uint32_t *sleeper = NULL;

	if (active(q))
		sleeper = grant_first(b, q);
	unlock(b);
	if (sleeper)
		fgi_futex_wake(sleeper, 1);
}

void fgi_waitq_pass(struct fgi_waitq *q)
{
	struct bucket *b = lock(q);
	struct fgi_waitq *found = b->active;
	uint32_t *sleeper = NULL;

	while (found && found != q)
		found = found->next;
	if (found)
		sleeper = grant_first(b, found);
	unlock(b);
	if (sleeper)
		fgi_futex_wake(sleeper, 1);
}

void fgi_waitq_broadcast(struct fgi_waitq *q)
{
	struct bucket *b = lock(q);
	struct fgi_waiter *w = NULL;

	if (active(q)) {
		w = q->first;
		for (struct fgi_waiter *each = w; each; each = each->next)
			fg_store_relaxed(&each->state, FGI_TAKEN);
		deactivate(b, q);
	}
	unlock(b);
	while (w) {
		struct fgi_waiter *next = w->next;

		fgi_futex_wake(grant(w, FGI_BROADCAST), 1);
		w = next;
	}
}

bool fgi_waitq_busy(struct fgi_waitq *q)
{
	struct bucket *b = lock(q);
	bool busy = active(q);

	unlock(b);
	return busy;
}

/* In the child: whoever held a lock here is gone, and so are all waiters. */
void fgi_waitq_after_fork(void)
{
	memset(buckets, 0, sizeof(buckets));
	if (++generation == 0)
		generation = 1;
}
