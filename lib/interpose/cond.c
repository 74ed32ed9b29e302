/* SPDX-License-Identifier: MIT */
/* pthread_cond_*: sync/cond.h in glibc's 48 bytes. docs/design/interposer.md says what is passed through. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "interpose/bridge.h"
#include "interpose/glibc_layout.h"
#include "interpose/mutex.h"
#include "interpose/real.h"
#include "runtime/deadline.h"

_Static_assert(sizeof(struct fgi_cond) == sizeof(uint32_t), "at 0, where no glibc has its flags");
_Static_assert(_Alignof(struct fgi_cond) <= _Alignof(pthread_cond_t), "a condition variable must fit");

#define EXPORT __attribute__((visibility("default")))

/* An object that is not understood passes through, as one that is shared. */
static uint32_t flags_of(const pthread_cond_t *cond)
{
	uint32_t at = fgi_real()->cond_flags_at;

	return fg_likely(at) ? *(const uint32_t *)(const void *)((const char *)cond + at) : FGI_GLIBC_COND_SHARED;
}

static bool shared(const pthread_cond_t *cond)
{
	return fg_unlikely(flags_of(cond) & FGI_GLIBC_COND_SHARED);
}

/* Is it ours, and does nobody wait? Before the table of glibc's functions is filled, that is not known. */
static inline bool is_idle(const pthread_cond_t *cond)
{
	uint32_t at = fg_load_relaxed(&fgi_real_table.cond_flags_at);

	return fg_likely(at && !(*(const uint32_t *)(const void *)((const char *)cond + at) & FGI_GLIBC_COND_SHARED)) &&
	       !fgi_cond_waited((const struct fgi_cond *)cond);
}

static clockid_t clock_of(const pthread_cond_t *cond)
{
	return flags_of(cond) & FGI_GLIBC_COND_MONOTONIC ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

EXPORT int pthread_cond_wait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex)
{
	if (!shared(cond))
		return fgi_cond_wait(fgi_cond_of(cond), mutex, &fgi_pthread_mutexes, FGI_NEVER);
	if (fgi_mutex_native(mutex))
		return fgi_bridge_wait(cond, mutex, FGI_OWN_CLOCK, NULL);
	return fgi_real()->cond_wait(cond, mutex);
}

EXPORT int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
				  const struct timespec *restrict abs)
{
	if (!fgi_is_time(abs))
		return EINVAL;
	if (!shared(cond))
		return fgi_cond_wait(fgi_cond_of(cond), mutex, &fgi_pthread_mutexes, FGI_DEADLINE(clock_of(cond), abs));
	if (fgi_mutex_native(mutex))
		return fgi_bridge_wait(cond, mutex, FGI_OWN_CLOCK, abs);
	return fgi_real()->cond_timedwait(cond, mutex, abs);
}

EXPORT int pthread_cond_clockwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex, clockid_t clock,
				  const struct timespec *restrict abs)
{
	struct fgi_deadline until = FGI_DEADLINE(clock, abs);

	if (!fgi_is_deadline(until))
		return EINVAL;
	if (!shared(cond))
		return fgi_cond_wait(fgi_cond_of(cond), mutex, &fgi_pthread_mutexes, until);
	if (fgi_mutex_native(mutex))
		return fgi_bridge_wait(cond, mutex, clock, abs);
	return fgi_real()->cond_clockwait(cond, mutex, clock, abs);
}

__attribute__((noinline)) static int signal_slow(pthread_cond_t *cond)
{
	if (shared(cond)) {
		fgi_bridge_pass();
		return fgi_real()->cond_signal(cond);
	}
	fgi_cond_signal(fgi_cond_of(cond));
	return 0;
}

EXPORT int pthread_cond_signal(pthread_cond_t *cond)
{
	return is_idle(cond) ? 0 : signal_slow(cond);
}

__attribute__((noinline)) static int broadcast_slow(pthread_cond_t *cond)
{
	if (shared(cond)) {
		fgi_bridge_pass();
		return fgi_real()->cond_broadcast(cond);
	}
	fgi_cond_broadcast(fgi_cond_of(cond));
	return 0;
}

EXPORT int pthread_cond_broadcast(pthread_cond_t *cond)
{
	return is_idle(cond) ? 0 : broadcast_slow(cond);
}

EXPORT int pthread_cond_init(pthread_cond_t *restrict cond, const pthread_condattr_t *restrict attr)
{
	if (attr)
		return fgi_real()->cond_init(cond, attr);
	memset(cond, 0, sizeof(*cond));
	return 0;
}

EXPORT int pthread_cond_destroy(pthread_cond_t *cond)
{
	if (is_idle(cond))
		return 0;
	if (shared(cond))
		return fgi_real()->cond_destroy(cond);
	return fgi_cond_busy(fgi_cond_of(cond)) ? EBUSY : 0;
}
