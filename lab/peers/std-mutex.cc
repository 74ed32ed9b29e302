/* SPDX-License-Identifier: MIT */
/* std::mutex: glibc's mutex behind two inline functions. */
#include <mutex>

struct fg_lock {
	std::mutex mutex;
};

static inline void fgi_lock(struct fg_lock *l)
{
	l->mutex.lock();
}

static inline void fgi_unlock(struct fg_lock *l)
{
	l->mutex.unlock();
}
