/* SPDX-License-Identifier: MIT */
/* tbb::spin_mutex (oneTBB): test-and-set, exponential back-off, then sched_yield. */
#include <oneapi/tbb/spin_mutex.h>

struct fg_lock {
	tbb::spin_mutex mutex;
};

static inline void fgi_lock(struct fg_lock *l)
{
	l->mutex.lock();
}

static inline void fgi_unlock(struct fg_lock *l)
{
	l->mutex.unlock();
}
