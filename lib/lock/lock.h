/* SPDX-License-Identifier: MIT */
/* The contract of a lock.
 *
 * A lock is one file, NAME.inc.h, and one line in a list beside it (lock/LOCKS). The interposer, the bench worker and
 * the tests include the file (FGI_LOCK_FILE, which the build defines), so that the lock inlines; it is never linked.
 * The smallest complete lock, a test-and-set spinlock:
 *
 *   #include "lock/lock.h"
 *
 *   struct fg_lock {
 *           uint32_t word; // 0 free, 1 held
 *   };
 *
 *   static inline bool fgi_trylock(struct fg_lock *l)
 *   {
 *           return fgi_take_xchg32(&l->word, 1) == 0;
 *   }
 *
 *   static inline void fgi_lock(struct fg_lock *l)
 *   {
 *           while (!fgi_trylock(l))
 *                   fgi_spin_once();
 *   }
 *
 *   static inline int fgi_timedlock(struct fg_lock *l, struct fgi_deadline until)
 *   {
 *           return fgi_poll(l, until);
 *   }
 *
 *   static inline void fgi_unlock(struct fg_lock *l)
 *   {
 *           fgi_drop_store32(&l->word, 0);
 *   }
 *
 * What a lock must keep (I1 to I7: ARCHITECTURE.md):
 *
 *   size        At most FGI_LOCK_BYTES, 8-aligned. Zeroed memory is an unlocked lock. No destructor is needed; memory
 *               of an unlocked lock that no thread is in a call on may vanish.
 *   calls       fgi_lock never fails. fgi_trylock never waits, and fails only if the lock is held. fgi_timedlock
 *               returns 0 with the lock, or ETIMEDOUT: at once if the deadline (runtime/deadline.h), which is a valid
 *               one, has passed and the lock is held. A lock is not recursive and checks no owner; any thread may
 *               unlock.
 *   hygiene     No allocation, no output, no exit; errno is kept; no cancellation point. Waiters call futex,
 *               sched_yield and clock_gettime, the default lock membarrier and sched_getscheduler, too: a sandbox
 *               must allow these.
 *   detection   The monitor must see who holds the lock (I5). One of:
 *                 windows   fgi_take_xchg32, _cas32 and _cas64 take a word that is 0, fgi_drop_store32, _xchg32, _cas32
 *                           and _cas64 release it, and fgi_enqueue joins a queue (runtime/arch/x86_64/window.h). They
 *                           count the lock in fg_thread.held. Exact: the monitor misses no preemption.
 *                 intent    the word names its owner (fgi_intent_set, runtime/thread.h). Exact, too. The
 *                           macro FGI_LOCK_NAMES_OWNER, above the #include of this file, says so.
 *                 by hand   the atomics of runtime/atomic.h, then fgi_held_raise(); fgi_held_lower(), then the release.
 *                           A preemption just in between is missed.
 *               A thread that is in a queue publishes its node (fgi_publish_node): the head counts as critical.
 *   waiting     Busy-waiting is fgi_spin_once, _times or _yield (runtime/spin.h), which count; fg_pause is not called
 *               by a lock. Parking is fgi_park, or counted in fg_thread.parks. How long to spin: runtime/spin_budget.h.
 *               No wake-up is lost (I2): a waiter that parks without a timeout first says so in the word on which it
 *               sleeps, and its sleep begins only while the word still says so. A woken waiter that gives up wakes the
 *               next.
 *   fork        The child has one thread. A lock that waits for threads (tickets, queues, counts of waiters) must
 *               forget those that stayed in the parent, at the first operation of the child on it and not in a fork
 *               handler, since the parent may share the lock's memory: runtime/node.h, fgi_forks of runtime/thread.h.
 *   names       What the file defines beside the four functions is static and its own. Its unit has the names of the
 *               file that includes it, too: a name that both use is prefixed with the lock's (-Wshadow tells).
 *   comment     The file opens with the paper and section, the states of its words, the waiting policy, the invariants,
 *               the memory beside the lock, and every deviation from the paper.
 *
 * Three further functions, each announced by a macro above the #include of this file:
 *
 *   FGI_LOCK_HAS_DESTROY     void fgi_lock_destroy(struct fg_lock *l): the lock is unlocked and no longer used. Gives
 *                            back what the lock took from a pool. A program need not call it.
 *   FGI_LOCK_HAS_BARE_FORK   void fgi_lock_after_bare_fork(void): the process is the child of a fork that ran no fork
 *                            handlers (_Fork). What a handler of the lock's would do there, as far as it is safe where
 *                            a signal handler may have forked: no thread is started, no memory allocated.
 *   FGI_LOCK_HAS_REFUSAL     const char *fgi_lock_refusal(void): why this machine cannot run the lock, or NULL. Only
 *                            the bench worker asks, before its threads start. The functions must work anyway.
 *
 * The declarations below check the signatures: a lock with other ones, or without one of them, does not compile without
 * a warning. interpose/mutex.c, which is compiled with every lock, checks the size. */
#ifndef FGI_LOCK_LOCK_H
#define FGI_LOCK_LOCK_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "runtime/arch/arch.h"
#include "runtime/futex.h"
#include "runtime/spin.h"
#include "runtime/spin_budget.h"
#include "runtime/thread.h"

#define FGI_LOCK_BYTES 16

struct fg_lock;
static inline void fgi_lock(struct fg_lock *l);
static inline bool fgi_trylock(struct fg_lock *l);
static inline int fgi_timedlock(struct fg_lock *l, struct fgi_deadline until);
static inline void fgi_unlock(struct fg_lock *l);
#ifdef FGI_LOCK_HAS_DESTROY
static inline void fgi_lock_destroy(struct fg_lock *l);
#endif
#ifdef FGI_LOCK_HAS_BARE_FORK
static inline void fgi_lock_after_bare_fork(void);
#endif

/* A timed wait for locks whose waiters cannot leave their queue: tries without queueing, spins for about the price of
 * a park, then naps between tries, twice as long each time. */
static inline int fgi_poll(struct fg_lock *l, struct fgi_deadline until)
{
	struct fgi_spin_budget p = FGI_SPIN_BUDGET(until);
	uint32_t nap_ns = 20000; /* ours: less than the timer slack, up to a fraction of a time slice */

	while (!fgi_trylock(l)) {
		uint64_t left_ns = fgi_remaining_ns(&until);

		if (left_ns == 0)
			return ETIMEDOUT;
		if (!fgi_spun_for(&p, FGI_SPIN_UNMONITORED_NS)) {
			fgi_spin_once();
			continue;
		}
		fg_thread.parks++;
		fgi_nap(left_ns < nap_ns ? (uint32_t)left_ns : nap_ns);
		if (nap_ns < 1000000)
			nap_ns *= 2;
	}
	return 0;
}

#endif
