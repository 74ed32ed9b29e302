/* SPDX-License-Identifier: MIT */
/* ck_spinlock_ticket (Concurrency Kit). */
#include <ck_spinlock.h>

struct fg_lock {
	ck_spinlock_ticket_t spinlock; /* CK_SPINLOCK_TICKET_INITIALIZER is all-zero */
};

static inline void fgi_lock(struct fg_lock *l)
{
	ck_spinlock_ticket_lock(&l->spinlock);
}

static inline void fgi_unlock(struct fg_lock *l)
{
	ck_spinlock_ticket_unlock(&l->spinlock);
}
