/* SPDX-License-Identifier: MIT */
/* absl::Mutex (Abseil): a word and a list of waiters; spins briefly, then parks on a per-thread semaphore. */
#include <absl/synchronization/mutex.h>

struct fg_lock {
	absl::Mutex mutex; /* its constructor zeroes it */
};

static inline void fgi_lock(struct fg_lock *l) ABSL_NO_THREAD_SAFETY_ANALYSIS
{
	l->mutex.Lock();
}

static inline void fgi_unlock(struct fg_lock *l) ABSL_NO_THREAD_SAFETY_ANALYSIS
{
	l->mutex.Unlock();
}
