/* SPDX-License-Identifier: MIT */
/* The waiters of a condition variable, in order of arrival. docs/design/interposer.md has the state table of a waiter
 * and the rules C1 to C5. */
#ifndef FGI_INTERPOSE_WAITQ_H
#define FGI_INTERPOSE_WAITQ_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "runtime/atomic.h"

enum fgi_waiter_state {
	FGI_WAITING = 0,   /* awake */
	FGI_ASLEEP = 1,    /* in its futex, or about to enter it: a grant has to wake it */
	FGI_SIGNALLED = 2, /* granted, alone */
	FGI_BROADCAST = 3, /* granted, with all others */
	FGI_LEFT = 4,      /* has left by itself */
};

/* On the waiting thread's stack. It waits while `state` is FGI_WAITING or FGI_ASLEEP. The pointers belong to the lock
 * of the bucket while the waiter is in a list, then to the thread that grants it. */
struct fgi_waiter {
	struct fgi_waiter *next, *prev;
	struct fgi_waiter *last;    /* of the first in a list: the last in it */
	struct fgi_waiter *sibling; /* of the first in a list: the first in the bucket's next list */
	const void *cond;           /* whose list it is in */
	pthread_mutex_t *mutex;     /* that its thread needs afterwards */
	uint64_t list;              /* the number of that list; 0: a signal has taken it out */
	uint64_t granted_ns;        /* CLOCK_MONOTONIC; 0: not known. Before the state says that it is granted */
	uint32_t forks;             /* of this process when the waiter joined */
	uint32_t state;
	uint32_t grant;   /* what it is granted as, once it is out of the list: FGI_SIGNALLED or FGI_BROADCAST */
	uint8_t priority; /* of its thread (runtime/policy.h), once that sleeps */
	bool in_flight;   /* woken by an unlock: the mutex counts it until it arrives (M6). Before it is granted */
};

/* The first bytes of a pthread_cond_t of ours; all zero at the start. All else is in static memory and in the waiters:
 * a condition variable that is initialised or freed while threads wait harms no other. */
struct fgi_waitq {
	uint32_t waited; /* 0: nobody waits. A hint that may be out of date when it is not 0 */
};

/* The caller sets w->mutex. */
void fgi_waitq_join(struct fgi_waitq *q, struct fgi_waiter *w);

/* acquire: pairs with the release in grant. */
static inline bool fgi_waiter_granted(const struct fgi_waiter *w)
{
	return fg_load_acquire(&w->state) > FGI_ASLEEP;
}

/* Does it sleep, or has it decided to? Of a waiter that was taken out: it may wake meanwhile, but is then awake for
 * good only if it is granted. */
static inline bool fgi_waiter_asleep(const struct fgi_waiter *w)
{
	return fg_load_relaxed(&w->state) == FGI_ASLEEP;
}

/* Sleeps until granted, until the deadline (then it returns false), or for no reason: the caller looks again. */
bool fgi_waiter_sleep(struct fgi_waiter *w, clockid_t clock, const struct timespec *abs);

/* Takes w out unless a signal or broadcast has done so: then it waits for the grant, which comes in a moment. Returns
 * the final state. Does not touch the condition variable (C1). */
enum fgi_waiter_state fgi_waitq_leave(struct fgi_waiter *w);

/* Is there nobody to signal? relaxed: a waiter that a signal must see joined before it unlocked the mutex (C2), and the
 * caller has been in the mutex since, or has no claim that its signal came after. */
static inline bool fgi_waitq_idle(const struct fgi_waitq *q)
{
	return !fg_load_relaxed(&q->waited);
}

/* Has a waiter with a priority ever slept here? Until then the order of arrival is the order of priority. */
extern uint32_t fgi_waiters_ranked __attribute__((visibility("hidden")));

/* Take out the oldest waiter of the highest priority, or all in that order, by `next` and with the `last` of the first;
 * NULL if there is none. The caller sees to it that each is granted. */
struct fgi_waiter *fgi_waitq_take_first(struct fgi_waitq *q);
struct fgi_waiter *fgi_waitq_take_all(struct fgi_waitq *q);

/* Grants waiters that were taken out, and wakes those that sleep. The last access to each. */
void fgi_waiters_grant(struct fgi_waiter *first);

/* Signals a waiter of the condition variable at this address, if there is one. Touches waiters only (C4). */
void fgi_waitq_pass(const void *cond);

/* Has the condition variable waiters, in this process? */
bool fgi_waitq_busy(const void *cond);

#endif
