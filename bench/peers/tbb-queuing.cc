/* SPDX-License-Identifier: MIT */
/* tbb::queuing_mutex (oneTBB): an MCS lock whose waiters also yield. The caller brings the queue node, a scoped_lock:
 * here one per thread, as fg-bench never holds two locks at once. */
#include <oneapi/tbb/queuing_mutex.h>

struct fg_lock {
	tbb::queuing_mutex mutex;
};

alignas(FGB_ALONE) static thread_local tbb::queuing_mutex::scoped_lock fgb_tbb_node;

static inline void fgi_lock(struct fg_lock *l)
{
	fgb_tbb_node.acquire(l->mutex);
}

static inline void fgi_unlock(struct fg_lock *)
{
	fgb_tbb_node.release();
}
