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
	FGI_WATCHES = 2,   /* the same, for FGI_LATE_NS at most (M6) */
	FGI_SIGNALLED = 3, /* granted, alone */
	FGI_BROADCAST = 4, /* granted, with all others */
	FGI_LEFT = 5,      /* has left by itself */
};

/* 4 ms, about a time slice: a thread that an unlock has woken and that comes later is not waited for. */
#define FGI_LATE_NS 4200000u

/* On the waiting thread's stack. It waits while `state` is FGI_WAITING, FGI_ASLEEP or FGI_WATCHES. The pointers belong
 * to the lock of the bucket while the waiter is in a list, then to the thread that grants it. */
struct fgi_waiter {
	struct fgi_waiter *next, *prev;
	struct fgi_waiter *last;    /* of the first in a list: the last in it */
	struct fgi_waiter *sibling; /* of the first in a list: the first in the bucket's next list */
	const void *cond;           /* whose list it is in */
	pthread_mutex_t *mutex;     /* that its thread needs afterwards */
	uint32_t list;              /* the number of that list; 0: a signal has taken it out */
	uint64_t granted_ns;        /* CLOCK_MONOTONIC; 0: not known. Before the state says that it is granted */
	uint32_t forks;             /* of this process when the waiter joined */
	uint32_t state;
	uint32_t grant;   /* what it is granted as, once it is out of the list: FGI_SIGNALLED or FGI_BROADCAST */
	uint8_t priority; /* of its thread (runtime/policy.h), once that sleeps */
	bool in_flight;   /* woken by an unlock: the mutex counts it until it arrives (M6). Before it is granted */
	bool late;        /* has watched until late_ns: its thread takes the mutex without a grant. Its thread's */
	uint64_t late_ns; /* CLOCK_MONOTONIC; 0: it has not watched. Its thread's */
};

/* The first bytes of a pthread_cond_t of ours; all zero at the start. All else is in static memory and in the waiters:
 * a condition variable that is initialised or freed while threads wait harms no other. */
struct fgi_waitq {
	/* The number of its list, for as long as it has one; 0: nobody waits. May be out of date when it is not 0.
	 * Other lists at this address are of threads that wait since before it was initialised anew. */
	uint32_t waited;
};

/* The caller sets w->mutex. */
void fgi_waitq_join(struct fgi_waitq *q, struct fgi_waiter *w);

/* acquire: pairs with the release in grant. */
static inline bool fgi_waiter_granted(const struct fgi_waiter *w)
{
	return fg_load_acquire(&w->state) > FGI_WATCHES;
}

/* Does it sleep, or has it decided to? Of a waiter that was taken out: it may wake meanwhile, but is then awake for
 * good only if it is granted. */
static inline bool fgi_waiter_asleep(const struct fgi_waiter *w)
{
	return fg_load_relaxed(&w->state) != FGI_WAITING;
}

/* Sleeps until granted, until the deadline or until it is late (then it returns false), or for no reason: the caller
 * looks again. */
bool fgi_waiter_sleep(struct fgi_waiter *w, clockid_t clock, const struct timespec *abs);

/* Takes w out unless a signal or broadcast has done so: then it waits until it is granted, which comes in a moment, or
 * late. Returns its state. Does not touch the condition variable (C1). */
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

/* Of a waiter that was taken out and is not granted: it watches from now on. Returns the address to wake afterwards, or
 * NULL: the waiter is awake. */
uint32_t *fgi_waiter_watch(struct fgi_waiter *w);

/* Signals a waiter of the condition variable at this address, if there is one. Touches waiters only (C4). */
void fgi_waitq_pass(const void *cond);

/* Has the condition variable waiters, in this process? */
bool fgi_waitq_busy(const struct fgi_waitq *q);

#endif
