/* SPDX-License-Identifier: MIT */
/* pthread_cond_*@GLIBC_2.2.5, to which programs are bound that were linked before 2003. Their condition variables have
 * 24 bytes, without flags: of one process, on CLOCK_REALTIME. Ours needs 4 of them. */
#include "interpose/mutex.h"
#include "runtime/deadline.h"

#if defined(__x86_64__)
#include <errno.h>

#define EXPORT __attribute__((visibility("default"), used))
#define OLD(name, ...)                                                                                                 \
	__asm__(".symver fgi_old_cond_" #name ", pthread_cond_" #name "@GLIBC_2.2.5");                                 \
	EXPORT int fgi_old_cond_##name(__VA_ARGS__)

OLD(init, pthread_cond_t *cond, const pthread_condattr_t *attr)
{
	if (attr && *(const int *)(const void *)attr & 1)
		return EINVAL; /* shared */
	fgi_cond_of(cond)->waited = 0;
	return 0;
}

OLD(destroy, pthread_cond_t *cond)
{
	return fgi_cond_busy(fgi_cond_of(cond)) ? EBUSY : 0;
}

OLD(wait, pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	return fgi_cond_wait(fgi_cond_of(cond), mutex, &fgi_pthread_mutexes, FGI_NEVER);
}

OLD(timedwait, pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *abs)
{
	if (!fgi_is_time(abs))
		return EINVAL;
	return fgi_cond_wait(fgi_cond_of(cond), mutex, &fgi_pthread_mutexes, FGI_DEADLINE(CLOCK_REALTIME, abs));
}

OLD(signal, pthread_cond_t *cond)
{
	fgi_cond_signal(fgi_cond_of(cond));
	return 0;
}

OLD(broadcast, pthread_cond_t *cond)
{
	fgi_cond_broadcast(fgi_cond_of(cond));
	return 0;
}
#endif
