/* SPDX-License-Identifier: MIT */
/* C11's mtx_* and cnd_*. glibc's call pthread functions by names inside itself, which cannot be interposed. So they are
 * written here as what the standard says of them, in terms of ours. An mtx_t is a pthread_mutex_t, a cnd_t a
 * pthread_cond_t. call_once stays glibc's: it is pthread_once. */
#include <errno.h>
#include <pthread.h>
#include <threads.h>

#include "interpose/glibc_layout.h"
#include "runtime/atomic.h"

_Static_assert(sizeof(mtx_t) == sizeof(pthread_mutex_t), "the same size");
_Static_assert(sizeof(cnd_t) == sizeof(pthread_cond_t), "the same size");
_Static_assert(_Alignof(mtx_t) <= _Alignof(pthread_mutex_t), "no smaller alignment");
_Static_assert(_Alignof(cnd_t) <= _Alignof(pthread_cond_t), "no smaller alignment");

#define EXPORT __attribute__((visibility("default")))

static int result_of(int error)
{
	switch (error) {
	case 0:
		return thrd_success;
	case EBUSY:
		return thrd_busy;
	case ETIMEDOUT:
		return thrd_timedout;
	case ENOMEM:
		return thrd_nomem;
	default:
		return thrd_error;
	}
}

static pthread_mutex_t *mutex(mtx_t *m)
{
	return (pthread_mutex_t *)m;
}

static pthread_cond_t *cond(cnd_t *c)
{
	return (pthread_cond_t *)c;
}

/* As in glibc: recursive is what the standard's two types say, every other type is plain, and every mutex can be waited
 * for with a deadline. */
EXPORT int mtx_init(mtx_t *m, int type)
{
	pthread_mutexattr_t attr;

	if (type != (mtx_plain | mtx_recursive) && type != (mtx_timed | mtx_recursive))
		return result_of(pthread_mutex_init(mutex(m), NULL));
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	return result_of(pthread_mutex_init(mutex(m), &attr));
}

EXPORT void mtx_destroy(mtx_t *m)
{
	(void)pthread_mutex_destroy(mutex(m));
}

EXPORT int mtx_lock(mtx_t *m)
{
	return result_of(pthread_mutex_lock(mutex(m)));
}

EXPORT int mtx_trylock(mtx_t *m)
{
	return result_of(pthread_mutex_trylock(mutex(m)));
}

EXPORT int mtx_timedlock(mtx_t *restrict m, const struct timespec *restrict abs)
{
	return result_of(pthread_mutex_timedlock(mutex(m), abs));
}

EXPORT int mtx_unlock(mtx_t *m)
{
	return result_of(pthread_mutex_unlock(mutex(m)));
}

EXPORT int cnd_init(cnd_t *c)
{
	return result_of(pthread_cond_init(cond(c), NULL));
}

EXPORT void cnd_destroy(cnd_t *c)
{
	(void)pthread_cond_destroy(cond(c));
}

EXPORT int cnd_wait(cnd_t *c, mtx_t *m)
{
	return result_of(pthread_cond_wait(cond(c), mutex(m)));
}

EXPORT int cnd_timedwait(cnd_t *restrict c, mtx_t *restrict m, const struct timespec *restrict abs)
{
	return result_of(pthread_cond_timedwait(cond(c), mutex(m), abs));
}

EXPORT int cnd_signal(cnd_t *c)
{
	return result_of(pthread_cond_signal(cond(c)));
}

EXPORT int cnd_broadcast(cnd_t *c)
{
	return result_of(pthread_cond_broadcast(cond(c)));
}
