/* SPDX-License-Identifier: MIT */
/* A lock whose holders ask the kernel for more time instead of being preempted (locks/parts/slice_extension.h; section
 * 2.4).
 *
 *   #define FGI_EXTENDED_LOCK "locks/published/NAME.c"
 *   #include "locks/parts/slice_extended.h"
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
 * Deviation: the authors' spinlock requests before it takes the lock and withdraws if it fails. */
#ifndef FGI_PARTS_SLICE_EXTENDED_H
#define FGI_PARTS_SLICE_EXTENDED_H

#define FGI_LOCK_HAS_REFUSAL
#include "locks/lock.h"
#include "locks/parts/slice_extension.h"

/* On a machine without the extension a measurement of this lock would be one of the lock itself. */
static inline const char *fgi_lock_refusal(void)
{
	switch (fgi_slice_extension_start()) {
	case 0:
		return NULL;
	case EINVAL:
		return "this kernel has no time-slice extension (Linux 7.0 and later, CONFIG_RSEQ_SLICE_EXTENSION)";
	case EBUSY:
		return "something else has registered the restartable-sequences area: set "
		       "GLIBC_TUNABLES=glibc.pthread.rseq=0";
	default:
		return "this kernel was built or booted without the time-slice extension, or the C library's "
		       "restartable-sequences area is too short for it: set GLIBC_TUNABLES=glibc.pthread.rseq=0";
	}
}

static inline void withdraw_if_free(void)
{
	if (fgi_sections() <= 0)
		fgi_slice_withdraw();
}

/* The wake-ups of the lock's own code. */
static inline int wake_withdrawn(uint32_t *word, int n)
{
	withdraw_if_free();
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
	withdraw_if_free();
}

#endif
