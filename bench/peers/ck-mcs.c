/* SPDX-License-Identifier: MIT */
/* ck_spinlock_mcs (Concurrency Kit). The caller brings the queue node: here one per thread, as fg-bench never holds two
 * locks at once. */
#include <ck_spinlock.h>

struct fg_lock {
	ck_spinlock_mcs_t queue; /* CK_SPINLOCK_MCS_INITIALIZER is all-zero */
};

static __thread ck_spinlock_mcs_context_t fgb_mcs_node __attribute__((aligned(FGB_ALONE)));

static inline void fgi_lock(struct fg_lock *l)
{
	ck_spinlock_mcs_lock(&l->queue, &fgb_mcs_node);
}

static inline void fgi_unlock(struct fg_lock *l)
{
	ck_spinlock_mcs_unlock(&l->queue, &fgb_mcs_node);
}
