/* SPDX-License-Identifier: MIT */
/* pthread_cond_*@GLIBC_2.2.5, to which programs are bound that were linked before 2003. Their condition variables have
 * 24 bytes, without flags: of one process, on CLOCK_REALTIME. Ours needs 4 of them. */
#include "interpose/cond.h"

#if defined(__x86_64__)
#include <errno.h>

#define OLD(name) __asm__(".symver fgi_old_cond_" #name ", pthread_cond_" #name "@GLIBC_2.2.5")
#define EXPORT __attribute__((visibility("default"), used))

OLD(init);
EXPORT int fgi_old_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr)
{
	if (attr && *(const int *)(const void *)attr & 1)
		return EINVAL; /* shared */
	fgi_waitq_of(cond)->waited = 0;
	return 0;
}

OLD(destroy);
EXPORT int fgi_old_cond_destroy(pthread_cond_t *cond)
{
	return fgi_waitq_busy(fgi_waitq_of(cond)) ? EBUSY : 0;
}

OLD(wait);
EXPORT int fgi_old_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	return fgi_cond_wait(cond, mutex, CLOCK_MONOTONIC, NULL);
}

OLD(timedwait);
EXPORT int fgi_old_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *abs)
{
	return fgi_is_time(abs) ? fgi_cond_wait(cond, mutex, CLOCK_REALTIME, abs) : EINVAL;
}

OLD(signal);
EXPORT int fgi_old_cond_signal(pthread_cond_t *cond)
{
	fgi_cond_signal(cond);
	return 0;
}

OLD(broadcast);
EXPORT int fgi_old_cond_broadcast(pthread_cond_t *cond)
{
	fgi_cond_broadcast(cond);
	return 0;
}
#endif
