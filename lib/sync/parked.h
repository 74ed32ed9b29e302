/* SPDX-License-Identifier: MIT */
/* Threads that are parked at a read-write lock, in order of arrival: nodes on their own stacks, in lists under static
 * futex locks that are chosen by the lock's address. The lock itself keeps flags only, so it may be freed as soon as it
 * is free, and a fork cannot copy a list of threads that the child does not have. */
#ifndef FGI_SYNC_PARKED_H
#define FGI_SYNC_PARKED_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/atomic.h"

/* A node waits while it is FGI_PARKED_AWAKE or FGI_PARKED_ASLEEP. Its last two states are the last access of another
 * thread to it. */
enum fgi_parked_state {
	FGI_PARKED_AWAKE = 0,  /* about to sleep */
	FGI_PARKED_ASLEEP = 1, /* in its futex, or about to enter it */
	FGI_PARKED_RETRY = 2,  /* out of the list: may try for the lock */
	FGI_PARKED_OWNER = 3,  /* out of the list: the lock has been handed to it */
};

struct fgi_parked {
	struct fgi_parked *next, *prev; /* guarded by the list's lock; then `next` is the waker's */
	const void *lock;
	uint64_t since_ns; /* CLOCK_MONOTONIC: when its thread began to wait */
	uint64_t told_ns;  /* CLOCK_MONOTONIC: when it was taken out of the list */
	uint32_t self;     /* its thread, as a lock word names it */
	uint32_t forks;    /* of this process when it parked */
	uint32_t state;
	uint8_t priority; /* of its thread (runtime/policy.h) */
	bool writer;
	bool reserved; /* it has waited for so long that the next release must hand the lock over */
};

struct fgi_parked_list;

struct fgi_parked_list *fgi_parked_lock(const void *lock);
void fgi_parked_unlock(struct fgi_parked_list *list);

/* With the list locked. `first`: before all others, as it was before it was woken. */
void fgi_parked_add(struct fgi_parked_list *list, struct fgi_parked *p, bool first);
void fgi_parked_remove(struct fgi_parked_list *list, struct fgi_parked *p);

/* The next node at `lock` behind `p`, or the first if p is NULL; NULL: there is none. */
struct fgi_parked *fgi_parked_next(const struct fgi_parked_list *list, const void *lock, const struct fgi_parked *p);

/* Tells a node that was removed what it is now, FGI_PARKED_RETRY or _OWNER, and wakes it. The node may vanish. */
void fgi_parked_tell(struct fgi_parked *p, enum fgi_parked_state state);

/* acquire: pairs with the release in fgi_parked_tell. */
static inline enum fgi_parked_state fgi_parked_state(const struct fgi_parked *p)
{
	return fg_load_acquire(&p->state);
}

void fgi_parked_after_fork(void); /* in the child: nobody is parked there */

#endif
