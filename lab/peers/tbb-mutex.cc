/* SPDX-License-Identifier: MIT */
/* tbb::mutex (oneTBB): spins, then waits in the library's address-hashed wait queues. */
#include <oneapi/tbb/mutex.h>

struct fg_lock {
	tbb::mutex mutex;
};

static inline void fgi_lock(struct fg_lock *l)
{
	l->mutex.lock();
}

static inline void fgi_unlock(struct fg_lock *l)
{
	l->mutex.unlock();
}
