/* SPDX-License-Identifier: MIT */
/* The waiters of a condition variable, in order of arrival. docs/design/interposer.md has the state table of a node and
 * the rules C1 to C5. */
#ifndef FGI_INTERPOSE_WAITQ_H
#define FGI_INTERPOSE_WAITQ_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/atomic.h"

enum fgi_waiter_state {
	FGI_WAITING = 0,   /* in the list */
	FGI_TAKEN = 1,     /* out of it: a broadcast will grant it shortly */
	FGI_SIGNALLED = 2, /* granted, alone */
	FGI_BROADCAST = 3, /* granted, with all others */
	FGI_LEFT = 4,      /* left by itself */
};

/* On the waiting thread's stack. It sleeps on `state` while that is FGI_WAITING or FGI_TAKEN. */
struct fgi_waiter {
	struct fgi_waiter *next; /* in the list: under its lock; TAKEN: the broadcast's */
	struct fgi_waiter *prev;
	uint32_t state;
};

/* The first bytes of a pthread_cond_t of ours. All zero: no waiters. */
struct fgi_waitq {
	struct fgi_waiter *first, *last;
	struct fgi_waitq *next; /* with waiters, under the same lock */
	uint32_t generation;    /* the list is that of this process iff this is its fork generation */
};

void fgi_waitq_join(struct fgi_waitq *q, struct fgi_waiter *w);

/* Takes w out unless it was granted; returns its final state. Does not touch q if w was granted (C1). */
enum fgi_waiter_state fgi_waitq_leave(struct fgi_waitq *q, struct fgi_waiter *w);

/* Is there nobody to signal? relaxed: a waiter that a signal must see joined before it unlocked the mutex (C2), and the
 * caller has been in the mutex since, or has no claim that its signal came after. */
static inline bool fgi_waitq_idle(const struct fgi_waitq *q)
{
	return !fg_load_relaxed(&q->first);
}

/* For a queue that is not idle. */
void fgi_waitq_signal(struct fgi_waitq *q);
void fgi_waitq_broadcast(struct fgi_waitq *q);

/* Signals q's oldest waiter if q has waiters. q need not exist any more (C4). */
void fgi_waitq_pass(struct fgi_waitq *q);

/* Has q waiters, in this process? */
bool fgi_waitq_busy(struct fgi_waitq *q);

#endif
