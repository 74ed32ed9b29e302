/* SPDX-License-Identifier: MIT */
/* The spinlock with time-slice extension: section 5.1 (ix), after the spinlock that came with the kernel's patches
 * (section 2.4): test-and-test-and-set (locks/published/tatas.inc.h), whose holder has asked the kernel for a longer
 * time slice (lock/slice_extension.h).
 *
 *   word   0 free, 1 held
 *
 * The request is made before the exchange that may take the lock, so that no instruction of the section is without it,
 * and withdrawn if the exchange fails or once the thread's last lock is released. A thread that only reads the word
 * requests nothing. Without the kernel's help this is tatas and two stores.
 *
 * Waiting policy: spin, always. A holder is preempted only if its section outlasts the extension, but waiters still
 * burn time slices that a holder could use.
 * I1  By the exchange. I4  Not kept: no order, no bound. I5  Exactly: taken and released inside windows.
 * Memory: the word; the two bytes of a thread's rseq area. */
#include "lock/slice_holder.h"

struct fg_lock {
	uint32_t word;
	uint32_t unused[3];
};

static inline bool fgi_trylock(struct fg_lock *l)
{
	if (fg_load_relaxed(&l->word) != 0)
		return false;
	fgi_slice_request();
	if (fgi_take_xchg32(&l->word, 1) == 0)
		return true;
	fgi_slice_withdraw_if_free();
	return false;
}

static inline void fgi_lock(struct fg_lock *l)
{
	while (!fgi_trylock(l))
		fgi_spin_once();
}

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	return fgi_poll(l, clock, abs);
}

static inline void fgi_unlock(struct fg_lock *l)
{
	fgi_drop_store32(&l->word, 0);
	fgi_slice_withdraw_if_free();
}
