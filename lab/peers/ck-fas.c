/* SPDX-License-Identifier: MIT */
/* ck_spinlock_fas (Concurrency Kit): test-and-test-and-set by fetch-and-store; its ck_spinlock_t. */
#include <ck_spinlock.h>

struct fg_lock {
	ck_spinlock_fas_t spinlock; /* CK_SPINLOCK_FAS_INITIALIZER is all-zero */
};

static inline void fgi_lock(struct fg_lock *l)
{
	ck_spinlock_fas_lock(&l->spinlock);
}

static inline void fgi_unlock(struct fg_lock *l)
{
	ck_spinlock_fas_unlock(&l->spinlock);
}
