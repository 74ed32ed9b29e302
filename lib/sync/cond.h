/* SPDX-License-Identifier: MIT */
/* The condition variable: a queue of parked threads (sync/parked.h) that stay awake for a while before they sleep
 * (sync/awake.h). Of the mutex the core knows what `struct fgi_cond_mutexes` says. The pthread functions and the C API
 * are two fronts.
 *
 *   a waiter is          in the queue of         and what moves it on
 *   waiting              condition variable      a signal or broadcast takes it out or moves it; its own thread leaves
 *   moved (C6)           mutex                   an unlock of the mutex takes it out; its own thread leaves
 *   taken out            none                    the thread that has taken it out tells it
 *   told, or has left    none                    it takes the mutex
 *
 * C1  A thread touches the condition variable when it joins, and never again. So the memory may go as soon as a
 *     broadcast has returned.
 * C2  It joins before it unlocks the mutex, so a signal that follows the unlock finds it.
 * C3  A thread whose time has come returns a timeout only if it finds itself waiting. If it was moved, or is being
 *     told, it had its signal, and succeeds.
 * C4  A thread that had a signal and is cancelled passes that on to the next of its queue. What was broadcast it need
 *     not.
 * C5  All that wait for one mutex are in the mutex's bucket: at its condition variables, and moved. `waited` names the
 *     queue of a condition variable and, in its low bits, the bucket. It is changed from 0 by a compare-and-swap, and
 *     otherwise by a thread that has this bucket locked. A condition variable that is initialised or freed while
 *     threads wait harms no other, nor the new one at the address, whose waiters have a queue of another number. A
 *     broadcast is for all that wait at the address. Where threads wait with several mutexes at a time, which POSIX
 *     leaves undefined, a waiter in the bucket of another mutex is told at once.
 * C6  A thread that is woken while another holds the mutex cannot go on. So waiters of a mutex whose holder signals are
 *     moved, and unlocks tell those that are awake at once, and of the sleepers as many as can wake while the mutex is
 *     passed on, two at least: `in_flight` counts those that were told and have not had the mutex since, and `ahead`
 *     says how many more than two that may be. A sleeper that then finds the mutex free adds one, and one that waits
 *     there halves it. Each unlocks the mutex in turn, and that wakes the next. They may not come, since they get no
 *     CPU, or are in a signal handler that waits. So the last of those that an unlock leaves behind watches: if it is
 *     still there after 4 ms it leaves, and takes the mutex. A mutex that keeps no such record (the C API's): a
 *     broadcast moves the sleepers but one, and each of them tells the next when it has the mutex.
 * C7  A handler may signal while its thread unlocks a mutex, and so move waiters, the thread itself included, to a
 *     mutex whose unlock has looked already. So an unlock of a mutex that keeps such a record ends with a look whether
 *     its thread has moved any to it meanwhile, and then tells all that are at the mutex. */
#ifndef FGI_SYNC_COND_H
#define FGI_SYNC_COND_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "runtime/atomic.h"
#include "sync/parked.h"

/* All zero at the start. */
struct fgi_cond {
	uint32_t waited; /* C5; 0: nobody waits. May be out of date when it is not 0 */
};

/* What a mutex keeps of the waiters that were moved to it. Its holder's. */
struct fgi_due {
	uint16_t any;   /* 0: none; otherwise unlocks have to look */
	uint16_t ahead; /* so many more than two may be on their way */
	uint16_t in_flight;
	uint16_t woken_at; /* when the last of them was woken, in units of 2^14 ns */
};

/* A kind of mutexes. */
struct fgi_cond_mutexes {
	int (*unlock)(void *mutex); /* not 0: the wait does not begin */
	int (*lock)(void *mutex);   /* not 0: the wait returns that */
	/* The mutex's record if this thread is known to hold it, or NULL. No function: there are no records. */
	struct fgi_due *(*due)(void *mutex);
	bool cancellable; /* is a wait a cancellation point? */
	/* Is this thread known to hold the mutex? For a jump out of `unlock`. No function: it is not known. */
	bool (*holds)(void *mutex);
};

/* Returns 0, ETIMEDOUT or what lock or unlock returned; in a process that a signal handler has forked meanwhile 0, at
 * once. */
int fgi_cond_wait(struct fgi_cond *c, void *mutex, const struct fgi_cond_mutexes *mutexes, struct fgi_deadline until);

/* With a struct fgi_cond on which somebody may wait. */
void fgi_cond_wake_one(void *c);
void fgi_cond_wake_all(void *c);

/* relaxed: a waiter that a signal must find joined before it unlocked the mutex (C2), and the caller has had the mutex
 * since, or has no claim that its signal came after. */
static inline bool fgi_cond_waited(const struct fgi_cond *c)
{
	return fg_unlikely(fg_load_relaxed(&c->waited) != 0);
}

static inline void fgi_cond_signal(struct fgi_cond *c)
{
	if (fgi_cond_waited(c))
		fgi_cond_wake_one(c);
}

static inline void fgi_cond_broadcast(struct fgi_cond *c)
{
	if (fgi_cond_waited(c))
		fgi_cond_wake_all(c);
}

/* Does a thread wait, in this process? */
bool fgi_cond_busy(const struct fgi_cond *c);

/* An unlock with due->any: takes out whom it tells, before the mutex is free, and tells them afterwards (C6). In a
 * handler (P7) all that were moved are told later. */
struct fgi_due_told {
	struct fgi_parked *chain;
	uint32_t *watcher;
};
struct fgi_due_told fgi_due_take(struct fgi_due *due, void *mutex);
void fgi_due_tell(struct fgi_due_told told);

/* The mutex to which this thread or a handler of it has moved a waiter last, unless an unlock has looked since. After
 * an unlock of that mutex (C7): tells all that were moved to it. It may be gone. */
extern __thread const void *fgi_cond_moved_to __attribute__((tls_model("initial-exec"), visibility("hidden")));
void fgi_cond_tell_moved(void *mutex);

#endif
