/* SPDX-License-Identifier: MIT */
/* absl::Mutex (Abseil): a word and a list of waiters; spins briefly, then parks on a per-thread semaphore.
 *
 * A library that was built for debugging looks for deadlocks at every acquisition, and Debian 12's does:
 * that is a debugging aid which costs memory for each lock and an order of magnitude in time where there are many
 * locks. It is turned off, as it is in release builds. */
#include <absl/synchronization/mutex.h>

[[maybe_unused]] static const bool fgb_absl_for_release =
	(absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore), true);

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
