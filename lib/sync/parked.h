/* SPDX-License-Identifier: MIT */
/* The parking lot: the threads that wait at read-write locks and condition variables, asleep or about to be.
 *
 * A waiting thread has a node on its own stack, in the queue of what it waits for. The queues are in static buckets,
 * each with a futex lock of its own, found by the address of the read-write lock, or of the mutex with which threads
 * wait at a condition variable. The object itself keeps at most a hint that somebody waits. So it may be freed as soon
 * as its users are done with it, and no fork copies a list of threads that the child does not have.
 *
 * Thousands of threads may wait with one mutex at a condition variable each. So the first nodes of the queues are a
 * treap: a search tree by the object's address, in which a hash of the address says who is above whom, so that it is
 * about as deep as the logarithm of its size. Queues of one object are behind one another in one place of it.
 *
 *   state           queued   what comes next
 *   AWAKE           yes      its own thread: ASLEEP, or it takes itself out; another: takes it out
 *   ASLEEP          yes      in its futex, or about to enter it: the same
 *   WATCHES         yes      the same; its thread sleeps until a time that it has chosen itself (sync/cond.h, C6)
 *   one of these    no       the thread that has taken it out tells it: that is its last access to the node
 *   RETRY, OWNER    no       nothing: its thread goes on, and the node vanishes
 *
 * next, prev, sibling, lower, higher, object, number and reserved belong to the bucket's lock. Once a node is taken
 * out, `next` and what else the waiter is to learn belong to the thread that tells it. `state` is atomic. All else its
 * own thread writes, before it joins; `priority` at the latest before it sleeps.
 *
 * P1  Validation. A thread joins under the bucket's lock, and either looks there whether it has to wait at all (a
 *     read-write lock: it exchanges the word there), or joins while it holds a mutex that the thread that will wake it
 *     takes first (a condition variable). A thread that changes what others wait for looks into the queue afterwards.
 *     It may leave that out where the object's hint says that nobody waits.
 * P2  No wake-up is lost (I2). A thread enters its futex only while the state is what it has exchanged AWAKE for, or
 *     WATCHES, and the kernel compares. Telling exchanges the state, and wakes where it finds another than AWAKE. One
 *     of the two sees the other. The wake-up goes to an address: the thread may be gone by then, and every sleeper
 *     looks again.
 * P3  Order. A queue is in order of arrival; who takes a thread out may prefer one of a higher real-time priority. A
 *     thread that was woken and has to wait again joins before all others.
 * P4  Moving. A node goes to another queue of its bucket under the bucket's lock: it is always in one of the two.
 * P5  Leaving (a deadline, a cancellation, a signal handler that jumps). The thread locks the bucket. If its node is
 *     queued it takes it out, and nobody tells it any more. Otherwise it is being told: it waits for that without a
 *     deadline, for the other thread has a few instructions left, and passes on what it cannot use. Not covered is a
 *     handler that jumps while its thread has a bucket locked, which stays so, or tells others, which sleep on then.
 * P6  Fork. The child's lot is empty. A node with another number of forks than the process is in no queue, and nobody
 *     tells it. If a handler forks while its thread has a bucket locked, the lot is emptied again as that is unlocked.
 * P7  Signal handlers. A handler may interrupt its thread while that has a bucket locked. What it would do with a
 *     bucket then is done when the interrupted code unlocks (fgi_parked_postpone): signals and broadcasts, unlocks of
 *     mutexes, and what an unlock of a read-write lock does once the lock is free. Eight such calls are kept. If there
 *     are more meanwhile, all threads that wait at condition variables are told instead, for no reason that they know:
 *     they look again, as POSIX has them do. And every read-write lock at which a thread waits is looked at. A handler
 *     may try there to take a read-write lock. It must not wait for one, nor for a mutex: another thread may need the
 *     bucket to give that up; and a writer that may wait locks the bucket where readers stand in the table. */
#ifndef FGI_SYNC_PARKED_H
#define FGI_SYNC_PARKED_H

#include <stdbool.h>
#include <stdint.h>

#include "abi/flexguard_abi.h"
#include "runtime/atomic.h"
#include "runtime/spin_budget.h"
#include "runtime/thread.h"
#include "sync/bucket.h"

enum fgi_parked_state {
	FGI_PARKED_AWAKE = 0,
	FGI_PARKED_ASLEEP = 1,
	FGI_PARKED_WATCHES = 2,
	FGI_PARKED_RETRY = 3, /* may try for the lock */
	FGI_PARKED_OWNER = 4, /* the lock has been handed to it */
};

struct fgi_parked_list;

struct fgi_parked {
	struct fgi_parked *next;      /* NULL: the last */
	struct fgi_parked *prev;      /* of the first: the last. NULL: not queued */
	struct fgi_parked *sibling;   /* of the first: the first of the object's next older queue. Of the newest's: */
	struct fgi_parked *lower;     /* what is below it, of objects with lower addresses, */
	struct fgi_parked *higher;    /* and with higher ones */
	struct fgi_parked_list *list; /* its bucket, at a condition variable */
	const void *object;
	uint32_t number; /* of the queue, among those of the object */
	uint32_t state;
	uint32_t forks;    /* of this process when it joined */
	uint8_t priority;  /* of its thread (runtime/policy.h) */
	uint64_t told_ns;  /* CLOCK_MONOTONIC: when it was taken out */
	uint64_t since_ns; /* At a read-write lock. CLOCK_MONOTONIC: when its thread began to wait; */
	uint32_t self;     /* its thread, as the lock's word names it; */
	bool writer;
	bool reserved; /* it has waited for so long that the next release must hand the lock over */
};

struct fgi_parked_list {
	uint32_t word;             /* sync/bucket.h */
	uint32_t numbered;         /* queues of condition variables so far */
	struct fgi_parked *queues; /* the root of the treap */
} __attribute__((aligned(FG_CACHE_LINE)));

extern struct fgi_parked_list fgi_parked_lists[FGI_BUCKETS] __attribute__((visibility("hidden")));

static inline struct fgi_parked_list *fgi_parked_list_of(const void *object)
{
	return &fgi_parked_lists[fgi_bucket_of(object)];
}

void fgi_parked_lock_list(struct fgi_parked_list *list);
struct fgi_parked_list *fgi_parked_lock(const void *object);
void fgi_parked_unlock(struct fgi_parked_list *list);

/* Is this a signal handler that has interrupted its thread while that had a bucket locked? Then run(object), or all(),
 * which does the same for every object, is called when that is over, and this returns true. */
bool fgi_parked_postpone(void (*run)(void *object), void *object, void (*all)(void));

/* Is this such a handler? Or has the calling thread a bucket locked itself? */
bool fgi_parked_is_inside(void);

/* With the list locked. The node says at which object and in which queue. `first`: before all others. */
void fgi_parked_add(struct fgi_parked_list *list, struct fgi_parked *p, bool first);
void fgi_parked_remove(struct fgi_parked_list *list, struct fgi_parked *p);

/* Is it queued? Otherwise another thread has taken it out, or it was in the parent of a fork (P6). */
static inline bool fgi_parked_listed(const struct fgi_parked *p)
{
	return p->prev && p->forks == fgi_forks;
}

#define FGI_PARKED_NUMBERED UINT32_MAX /* any number but 0, that of the newest queue first */

/* The first node of a queue, and the next one at `object` behind `p`, or the first of queue 0 if p is NULL. NULL: there
 * is none. */
struct fgi_parked *fgi_parked_first(const struct fgi_parked_list *list, const void *object, uint32_t number);
struct fgi_parked *fgi_parked_next(const struct fgi_parked_list *list, const void *object, const struct fgi_parked *p);

/* The first node of the newest queue of the next object, in the order of their addresses. NULL: there is none. */
struct fgi_parked *fgi_parked_after(const struct fgi_parked_list *list, const void *object);

/* Tells a node that was taken out what it is now, and wakes it. The node may vanish. */
void fgi_parked_tell(struct fgi_parked *p, enum fgi_parked_state state);

/* acquire: pairs with the release in fgi_parked_tell. */
static inline enum fgi_parked_state fgi_parked_state(const struct fgi_parked *p)
{
	return fg_load_acquire(&p->state);
}

static inline bool fgi_parked_told(const void *node)
{
	return fgi_parked_state(node) > FGI_PARKED_WATCHES;
}

static inline bool fgi_parked_watches(const struct fgi_parked *p)
{
	return fg_load_relaxed(&p->state) == FGI_PARKED_WATCHES;
}

/* Sleeps as FGI_PARKED_ASLEEP or _WATCHES: until told, until the deadline, until `until_ns` if that is not 0, or for no
 * reason: the caller looks again. Returns what fgi_futex_wait returns. */
int fgi_parked_sleep(struct fgi_parked *p, enum fgi_parked_state as, const struct fgi_deadline *deadline,
		     uint64_t until_ns);

/* Waits until a node is told that another thread has taken out (P5). False: it is not, in the child of a fork. */
bool fgi_parked_await(struct fgi_parked *p);

void fgi_parked_after_fork(void); /* in the child: nobody is parked there */

#endif
