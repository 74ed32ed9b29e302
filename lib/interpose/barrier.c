/* SPDX-License-Identifier: MIT */
/* pthread_barrier_*: sync/barrier.h in glibc's 32 bytes. A barrier has no static initializer, so every one comes from
 * pthread_barrier_init. A process-shared barrier, and any of a glibc whose layout is not understood, is glibc's. */
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>

#include "interpose/glibc_layout.h"
#include "interpose/real.h"
#include "sync/barrier.h"

_Static_assert(offsetof(struct fgi_barrier, shared) == FGI_GLIBC_BARRIER_SHARED_AT, "this word stays glibc's");
_Static_assert(sizeof(struct fgi_barrier) <= sizeof(pthread_barrier_t), "a barrier must fit");
_Static_assert(_Alignof(struct fgi_barrier) <= _Alignof(pthread_barrier_t), "a barrier must fit");

#define EXPORT __attribute__((visibility("default")))

static inline struct fgi_barrier *of(pthread_barrier_t *barrier)
{
	return (struct fgi_barrier *)barrier;
}

static inline bool native(pthread_barrier_t *barrier)
{
	return fg_likely(!of(barrier)->shared && fgi_real()->barrier_understood);
}

EXPORT int pthread_barrier_wait(pthread_barrier_t *barrier)
{
	if (!native(barrier))
		return fgi_real()->barrier_wait(barrier);
	return fgi_barrier_wait(of(barrier)) ? PTHREAD_BARRIER_SERIAL_THREAD : 0;
}

EXPORT int pthread_barrier_init(pthread_barrier_t *restrict barrier, const pthread_barrierattr_t *restrict attr,
				unsigned int count)
{
	int result = fgi_real()->barrier_init(barrier, attr, count);

	if (result == 0 && native(barrier))
		*of(barrier) = (struct fgi_barrier){.count = count};
	return result;
}

EXPORT int pthread_barrier_destroy(pthread_barrier_t *barrier)
{
	return native(barrier) ? fgi_barrier_destroy(of(barrier)) : fgi_real()->barrier_destroy(barrier);
}
