/* SPDX-License-Identifier: MIT */
/* tbb::queuing_mutex (oneTBB): an MCS lock whose waiters also yield. The caller brings the queue node, a scoped_lock: a
 * thread has two, as worker/bench.h allows no workload more. */
#include <oneapi/tbb/queuing_mutex.h>

struct fg_lock {
	tbb::queuing_mutex mutex;
};

struct fgb_tbb_node {
	struct fg_lock *lock; /* that it is for; NULL: none */
	tbb::queuing_mutex::scoped_lock held;
};

alignas(FGB_ALONE) static thread_local struct fgb_tbb_node fgb_tbb[2];

static inline void fgi_lock(struct fg_lock *l)
{
	struct fgb_tbb_node *node = &fgb_tbb[fgb_tbb[0].lock != nullptr];

	node->lock = l;
	node->held.acquire(l->mutex);
}

static inline void fgi_unlock(struct fg_lock *l)
{
	struct fgb_tbb_node *node = &fgb_tbb[fgb_tbb[0].lock != l];

	node->held.release();
	node->lock = nullptr;
}
