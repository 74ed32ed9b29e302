/* SPDX-License-Identifier: MIT */
/* ck_spinlock_mcs (Concurrency Kit). The caller brings the queue node: a thread has two, as worker/bench.h allows
 * no workload more. */
#include <ck_spinlock.h>

struct fg_lock {
	ck_spinlock_mcs_t queue; /* CK_SPINLOCK_MCS_INITIALIZER is all-zero */
};

static __thread struct {
	struct fg_lock *lock; /* that the node is for; NULL: none */
	ck_spinlock_mcs_context_t node;
} fgb_mcs[2] __attribute__((aligned(FGB_ALONE)));

static inline void fgi_lock(struct fg_lock *l)
{
	int i = fgb_mcs[0].lock != NULL;

	fgb_mcs[i].lock = l;
	ck_spinlock_mcs_lock(&l->queue, &fgb_mcs[i].node);
}

static inline void fgi_unlock(struct fg_lock *l)
{
	int i = fgb_mcs[0].lock != l;

	ck_spinlock_mcs_unlock(&l->queue, &fgb_mcs[i].node);
	fgb_mcs[i].lock = NULL;
}
