/* SPDX-License-Identifier: MIT */
/* A lock whose holders ask the kernel for more time instead of being preempted (lock/slice_extension.h; section
 * 2.4).
 *
 *   #define FGI_EXTENDED_LOCK "FOLDER/NAME.inc.h"
 *   #include "lock/slice_extended.h"
 *
 * The request is made as soon as the lock is taken and withdrawn as soon as the thread's last lock is released. In the
 * few instructions between taking and requesting the thread is as any other. Waiters request nothing. Between the grant
 * and its end the thread has not lost its CPU, so the monitor counts it only if the extension (5 us unless the
 * machine's owner sets more, 50 at most) was too short. A system call in the section ends the extension.
 *
 * A release that wakes a waiter withdraws the request first: release, withdraw, wake. The wake-up is a system call, and
 * would end an extension by force.
 *
 * Without the kernel's help this is the lock itself, and two stores. All invariants are the lock's own.
 * tas-slice requests before it takes the lock, as the kernel's patches do, which only a lock that is
 * taken by one instruction can. */
#ifndef FGI_LOCK_SLICE_EXTENDED_H
#define FGI_LOCK_SLICE_EXTENDED_H

#include "lock/slice_holder.h"

/* The wake-ups of the lock's own code. */
static inline int wake_withdrawn(uint32_t *word, int n)
{
	fgi_slice_withdraw_if_free();
	return fgi_futex_wake(word, n);
}

#define fgi_futex_wake wake_withdrawn
#define fgi_lock plain_lock
#define fgi_trylock plain_trylock
#define fgi_timedlock plain_timedlock
#define fgi_unlock plain_unlock
#include FGI_EXTENDED_LOCK
#undef fgi_futex_wake
#undef fgi_lock
#undef fgi_trylock
#undef fgi_timedlock
#undef fgi_unlock

static inline void fgi_lock(struct fg_lock *l)
{
	plain_lock(l);
	fgi_slice_request();
}

static inline bool fgi_trylock(struct fg_lock *l)
{
	bool taken = plain_trylock(l);

	if (taken)
		fgi_slice_request();
	return taken;
}

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	int error = plain_timedlock(l, clock, abs);

	if (!error)
		fgi_slice_request();
	return error;
}

static inline void fgi_unlock(struct fg_lock *l)
{
	plain_unlock(l);
	fgi_slice_withdraw_if_free();
}

#endif
