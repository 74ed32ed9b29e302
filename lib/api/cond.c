/* SPDX-License-Identifier: MIT */
/* The condition variable of the C API: a list of parked nodes (sync/parked.h) and the waiting of sync/awake.h.
 *
 * C1  A thread touches the condition variable when it joins, never after it was granted.
 * C2  It joins before it unlocks the mutex.
 * C3  A thread whose time has come and that is no longer in the list is being granted: it waits for that.
 * C4  A broadcast grants the waiters that are awake at once. The sleepers are a chain: each grants the next one when it
 *     has the mutex, which that one needs, too. So a broadcast wakes no crowd into a mutex. */
#include "flexguard/cond.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "runtime/clock.h"
#include "runtime/futex.h"
#include "runtime/thread.h"
#include "sync/awake.h"
#include "sync/parked.h"

struct cond {
	uint32_t waited; /* 0: nobody waits. A hint that may be out of date when it is not 0 */
	uint32_t none;
};
_Static_assert(sizeof(struct cond) == sizeof(struct fg_cond), "fg_cond is the condition variable");
_Static_assert(_Alignof(struct cond) <= _Alignof(struct fg_cond), "fg_cond is the condition variable");

struct waiter {
	struct fgi_parked node; /* node.lock: the condition variable; NULL: out of the list, with it locked */
	struct fgi_awake awake;
	const struct cond *cond;
	bool slept;
};

static struct cond *of(struct fg_cond *c)
{
	return (struct cond *)(void *)c->opaque;
}

static bool granted(const void *waiter)
{
	const struct waiter *w = waiter;

	return fgi_parked_state(&w->node) > FGI_PARKED_ASLEEP;
}

static void join(struct cond *c, struct waiter *w)
{
	struct fgi_parked_list *list;

	w->cond = c;
	w->node = (struct fgi_parked){.lock = c, .forks = fgi_forks};
	fgi_awake_begin(&w->awake, c);
	list = fgi_parked_lock(c);
	fgi_parked_add(list, &w->node, false);
	fg_store_relaxed(&c->waited, 1);
	fgi_parked_unlock(list);
}

/* Sleeps until granted (true) or until the deadline. */
static bool sleep_until_granted(struct waiter *w, clockid_t clock, const struct timespec *abs)
{
	while (!granted(w)) {
		if (w->node.forks != fgi_forks) /* a signal handler forked: this process has no such list */
			return true;
		if (fg_cas_relaxed(&w->node.state, FGI_PARKED_AWAKE, FGI_PARKED_ASLEEP) > FGI_PARKED_ASLEEP)
			continue;
		w->slept = true;
		fg_thread.parks++;
		if (fgi_futex_wait(&w->node.state, FGI_PARKED_ASLEEP, clock, abs) == ETIMEDOUT)
			return granted(w);
	}
	return true;
}

/* The deadline has come. False: without a grant. */
static bool leave(struct waiter *w)
{
	struct fgi_parked_list *list = fgi_parked_lock(w->cond);
	bool listed = w->node.lock != NULL && w->node.forks == fgi_forks;

	if (listed)
		fgi_parked_remove(list, &w->node);
	fgi_parked_unlock(list);
	return !listed && sleep_until_granted(w, CLOCK_MONOTONIC, NULL); /* C3 */
}

/* The next of the chain that a broadcast has left to this thread, which has the mutex (C4). */
static void grant_next(struct waiter *w)
{
	struct fgi_parked *next = w->node.next;

	if (!next)
		return;
	next->told_ns = fgi_now_ns(CLOCK_MONOTONIC);
	fgi_parked_tell(next, FGI_PARKED_RETRY);
}

static bool wait(struct fg_cond *c, struct fg_mutex *m, clockid_t clock, const struct timespec *abs)
{
	struct waiter w = {.slept = false};
	bool is_granted;

	join(of(c), &w); /* C2 */
	fg_mutex_unlock(m);
	is_granted =
		fgi_awake_stay(&w.awake, granted, &w, clock, abs) || sleep_until_granted(&w, clock, abs) || leave(&w);
	fgi_awake_end(&w.awake, w.slept, is_granted ? w.node.told_ns : 0);
	fg_mutex_lock(m);
	if (is_granted && w.node.forks == fgi_forks)
		grant_next(&w);
	return is_granted;
}

void fg_cond_wait(struct fg_cond *c, struct fg_mutex *m)
{
	wait(c, m, CLOCK_MONOTONIC, NULL);
}

int fg_cond_timedwait(struct fg_cond *c, struct fg_mutex *m, clockid_t clock, const struct timespec *abs)
{
	if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC)
		return EINVAL;
	if (abs->tv_nsec < 0 || abs->tv_nsec >= 1000000000)
		return EINVAL;
	return wait(c, m, clock, abs) ? 0 : ETIMEDOUT;
}

/* With the list locked. */
static struct fgi_parked *take_first(struct fgi_parked_list *list, const struct cond *c)
{
	struct fgi_parked *p = fgi_parked_next(list, c, NULL);

	if (p) {
		fgi_parked_remove(list, p);
		p->next = NULL;
		p->lock = NULL;
	}
	return p;
}

/* relaxed: a waiter that a signal must find joined before it unlocked the mutex (C2), and the caller has had the mutex
 * since, or has no claim that its signal came after. */
static bool nobody_waits(const struct cond *c)
{
	return !fg_load_relaxed(&c->waited);
}

void fg_cond_signal(struct fg_cond *c)
{
	struct fgi_parked_list *list;
	struct fgi_parked *first;

	if (nobody_waits(of(c)))
		return;
	list = fgi_parked_lock(c);
	first = take_first(list, of(c));
	if (!fgi_parked_next(list, c, NULL))
		fg_store_relaxed(&of(c)->waited, 0);
	fgi_parked_unlock(list);
	if (!first)
		return;
	first->told_ns = fgi_now_ns(CLOCK_MONOTONIC);
	fgi_parked_tell(first, FGI_PARKED_RETRY);
}

void fg_cond_broadcast(struct fg_cond *c)
{
	struct fgi_parked *chain = NULL, **end = &chain, *p;
	struct fgi_parked_list *list;

	if (nobody_waits(of(c)))
		return;
	list = fgi_parked_lock(c);
	while ((p = take_first(list, of(c))) != NULL) {
		/* release: pairs with the acquire in granted */
		if (fg_cas_release(&p->state, FGI_PARKED_AWAKE, FGI_PARKED_RETRY) == FGI_PARKED_AWAKE)
			continue;
		*end = p;
		end = &p->next;
	}
	fg_store_relaxed(&of(c)->waited, 0);
	fgi_parked_unlock(list);
	if (!chain)
		return;
	chain->told_ns = fgi_now_ns(CLOCK_MONOTONIC);
	fgi_parked_tell(chain, FGI_PARKED_RETRY);
}

__attribute__((constructor)) static void cond_start(void)
{
	(void)pthread_atfork(NULL, NULL, fgi_parked_after_fork);
}
