/* SPDX-License-Identifier: MIT */
#include "interpose/waitq.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "abi/flexguard_abi.h"
#include "interpose/atfork.h"
#include "runtime/clock.h"
#include "runtime/futex.h"
#include "runtime/policy.h"
#include "runtime/thread.h"
#include "sync/bucket.h"

/* A lock (sync/bucket.h) and the lists that it guards, one for each condition variable with waiters. */
struct bucket {
	uint32_t word;
	struct fgi_waiter *lists; /* the first waiter of the first list; the others by `sibling` */
	uint32_t numbered;        /* lists so far */
} __attribute__((aligned(FG_CACHE_LINE)));

static struct bucket buckets[FGI_BUCKETS];

static struct bucket *lock(const void *cond)
{
	struct bucket *b = &buckets[fgi_bucket_of(cond)];

	fgi_bucket_lock(&b->word);
	return b;
}

static void unlock(struct bucket *b)
{
	fgi_bucket_unlock(&b->word);
}

/* From here to the grants: with the bucket locked. */

#define ANY 0u

/* Where the bucket has the list of that number at the condition variable, or the newest list there: *link is its first
 * waiter, or NULL. */
static struct fgi_waiter **find(struct bucket *b, const void *cond, uint32_t list)
{
	struct fgi_waiter **link = &b->lists;

	while (*link && ((*link)->cond != cond || (list != ANY && (*link)->list != list)))
		link = &(*link)->sibling;
	return link;
}

/* A new list comes before older ones of the same address. Returns the number of the list. */
static uint32_t append(struct bucket *b, const void *cond, uint32_t list, struct fgi_waiter *w)
{
	struct fgi_waiter *first = list ? *find(b, cond, list) : NULL;

	w->next = NULL;
	if (first) {
		w->list = first->list;
		w->prev = first->last;
		first->last->next = w;
		first->last = w;
		return w->list;
	}
	if (++b->numbered == ANY)
		b->numbered++;
	w->list = b->numbered;
	w->prev = NULL;
	w->last = w;
	w->sibling = b->lists;
	b->lists = w;
	return w->list;
}

/* The first waiter leaves: what it knows of the list goes to the second. */
static struct fgi_waiter *take_first(struct fgi_waiter **link)
{
	struct fgi_waiter *w = *link, *second = w->next, *last = w->last;

	w->list = 0;
	w->next = NULL;
	w->last = w;
	if (!second) {
		*link = w->sibling;
		return w;
	}
	second->prev = NULL;
	second->last = last;
	second->sibling = w->sibling;
	*link = second;
	return w;
}

static void take_out(struct fgi_waiter **link, struct fgi_waiter *w)
{
	struct fgi_waiter *first = *link;

	if (w == first) {
		take_first(link);
		return;
	}
	w->prev->next = w->next;
	if (w->next)
		w->next->prev = w->prev;
	else
		first->last = w->prev;
	w->list = 0;
	w->next = NULL;
	w->last = w;
}

uint32_t fgi_waiters_ranked;

static uint8_t priority_of(const struct fgi_waiter *w)
{
	return fg_load_relaxed(&w->priority);
}

/* The first of the highest priority. */
static struct fgi_waiter *most_urgent(struct fgi_waiter *first)
{
	struct fgi_waiter *most = first;

	for (struct fgi_waiter *w = first; w; w = w->next)
		if (priority_of(w) > priority_of(most))
			most = w;
	return most;
}

/* No lock from here to the end of the grants: the waiter is in no list, and its thread waits for the grant. */

/* The waiter may vanish with the exchange; the address remains good for a wake (C5). The time lets a sleeper learn how
 * long it waited for the event, without the time of waking. release: pairs with the acquire in fgi_waiter_granted. */
static void grant(struct fgi_waiter *w)
{
	uint32_t *word = &w->state;

	if (fg_load_relaxed(word) != FGI_WAITING)
		w->granted_ns = fgi_now_ns(CLOCK_MONOTONIC);
	if (fg_xchg_release(word, w->grant) != FGI_WAITING)
		fgi_futex_wake(word, 1);
}

void fgi_waiters_grant(struct fgi_waiter *first)
{
	while (first) {
		struct fgi_waiter *next = first->next;

		grant(first);
		first = next;
	}
}

/* release: pairs with the acquire in fgi_waiter_granted; the waiter that watches may read how it is to be granted. */
uint32_t *fgi_waiter_watch(struct fgi_waiter *w)
{
	return fg_xchg_release(&w->state, FGI_WATCHES) == FGI_ASLEEP ? &w->state : NULL;
}

void fgi_waitq_join(struct fgi_waitq *q, struct fgi_waiter *w)
{
	struct bucket *b;

	w->state = FGI_WAITING;
	w->granted_ns = 0;
	w->in_flight = false;
	w->late = false;
	w->late_ns = 0;
	w->priority = 0;
	w->cond = q;
	w->forks = fgi_forks;
	b = lock(q);
	fg_store_relaxed(&q->waited, append(b, q, fg_load_relaxed(&q->waited), w));
	unlock(b);
}

/* It was taken out long ago, so its deadline no longer counts. */
static bool watch(struct fgi_waiter *w)
{
	struct timespec until;

	if (!w->late_ns)
		w->late_ns = fgi_now_ns(CLOCK_MONOTONIC) + FGI_LATE_NS;
	until = fgi_timespec(w->late_ns);
	w->late = fgi_futex_wait(&w->state, FGI_WATCHES, CLOCK_MONOTONIC, &until) == ETIMEDOUT;
	return !w->late;
}

bool fgi_waiter_sleep(struct fgi_waiter *w, clockid_t clock, const struct timespec *abs)
{
	uint32_t state;

	if (fg_load_relaxed(&w->state) == FGI_WAITING) {
		uint8_t priority = fgi_priority();

		fg_store_relaxed(&w->priority, priority);
		if (priority)
			fg_store_relaxed(&fgi_waiters_ranked, 1);
	}
	state = fg_cas_relaxed(&w->state, FGI_WAITING, FGI_ASLEEP);
	if (state == FGI_WATCHES)
		return watch(w);
	if (state > FGI_ASLEEP)
		return true;
	return fgi_futex_wait(&w->state, FGI_ASLEEP, clock, abs) != ETIMEDOUT;
}

enum fgi_waiter_state fgi_waitq_leave(struct fgi_waiter *w)
{
	struct bucket *b = lock(w->cond);
	struct fgi_waiter **link = find(b, w->cond, w->list);

	if (w->forks != fgi_forks) { /* a signal handler forked, and the lists of this process do not have w */
		fg_store_relaxed(&w->state, FGI_LEFT);
	} else if (w->list && *link) {
		take_out(link, w);
		fg_store_relaxed(&w->state, FGI_LEFT);
	}
	unlock(b);
	while (!fgi_waiter_granted(w) && !w->late) /* C3 */
		fgi_waiter_sleep(w, CLOCK_MONOTONIC, NULL);
	return fg_load_relaxed(&w->state);
}

/* `q`: the condition variable itself, if it may be touched. */
static struct fgi_waiter *take(const void *cond, struct fgi_waitq *q)
{
	struct bucket *b = lock(cond);
	uint32_t list = q ? fg_load_relaxed(&q->waited) : ANY;
	struct fgi_waiter **link = find(b, cond, list), *w = q && !list ? NULL : *link;

	if (w) {
		if (fg_unlikely(fg_load_relaxed(&fgi_waiters_ranked)))
			w = most_urgent(w);
		take_out(link, w);
		w->grant = FGI_SIGNALLED;
	}
	if (q && (!*link || (*link)->list != list))
		fg_store_relaxed(&q->waited, 0);
	unlock(b);
	return w;
}

struct fgi_waiter *fgi_waitq_take_first(struct fgi_waitq *q)
{
	return take(q, q);
}

void fgi_waitq_pass(const void *cond)
{
	struct fgi_waiter *w = take(cond, NULL);

	fgi_waiters_grant(w);
}

/* Those of one priority keep their order. A priority changes once at most, when its waiter falls asleep. */
static struct fgi_waiter *by_priority(struct fgi_waiter *first)
{
	struct fgi_waiter *sorted = NULL, **end = &sorted, *last = NULL;

	while (first) {
		uint8_t most = priority_of(most_urgent(first));

		for (struct fgi_waiter **link = &first, *w; (w = *link) != NULL;) {
			if (priority_of(w) != most) {
				link = &w->next;
				continue;
			}
			*link = w->next;
			*end = last = w;
			end = &w->next;
		}
		*end = NULL;
	}
	if (sorted)
		sorted->last = last;
	return sorted;
}

struct fgi_waiter *fgi_waitq_take_all(struct fgi_waitq *q)
{
	struct bucket *b = lock(q);
	struct fgi_waiter *all = NULL, **link;

	while (*(link = find(b, q, ANY))) {
		struct fgi_waiter *w = *link;

		*link = w->sibling;
		w->prev = all ? all->last : NULL;
		if (all) {
			all->last->next = w;
			all->last = w->last;
		} else {
			all = w;
		}
	}
	fg_store_relaxed(&q->waited, 0);
	unlock(b);
	for (struct fgi_waiter *each = all; each; each = each->next)
		each->grant = FGI_BROADCAST;
	return fg_load_relaxed(&fgi_waiters_ranked) ? by_priority(all) : all;
}

bool fgi_waitq_busy(const struct fgi_waitq *q)
{
	struct bucket *b = lock(q);
	bool busy = q->waited && *find(b, q, q->waited) != NULL;

	unlock(b);
	return busy;
}

/* In the child: a thread that held a lock here stayed in the parent, and so did all waiters. */
void fgi_waitq_after_fork(void)
{
	memset(buckets, 0, sizeof(buckets));
}
