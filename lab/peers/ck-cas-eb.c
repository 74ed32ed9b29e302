/* SPDX-License-Identifier: MIT */
/* ck_spinlock_cas (Concurrency Kit) with exponential back-off. */
#include <ck_spinlock.h>

struct fg_lock {
	ck_spinlock_cas_t spinlock; /* CK_SPINLOCK_CAS_INITIALIZER is all-zero */
};

static inline void fgi_lock(struct fg_lock *l)
{
	ck_spinlock_cas_lock_eb(&l->spinlock);
}

static inline void fgi_unlock(struct fg_lock *l)
{
	ck_spinlock_cas_unlock(&l->spinlock);
}
