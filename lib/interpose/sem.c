/* SPDX-License-Identifier: MIT */
/* sem_wait, sem_timedwait and sem_clockwait: glibc's semaphore, of any kind. A waiter stays awake in front of it for a
 * while (sync/awake.h) and looks for a token as sem_trywait does; then it waits in glibc. So the other side may run
 * without an interposer: glibc's sem_post wakes every waiter.
 *
 * A token is not a critical section: who has it need not be who gives it back. Nothing is published. */
#include <errno.h>
#include <semaphore.h>

#include "interpose/deadline.h"
#include "interpose/real.h"
#include "runtime/clock.h"
#include "sync/awake.h"

#define EXPORT __attribute__((visibility("default")))

static bool take(const void *sem)
{
	int saved = errno;

	if (sem_trywait((sem_t *)(uintptr_t)sem) == 0)
		return true;
	errno = saved;
	return false;
}

/* Returns true with a token; false: glibc is to wait. */
static bool wait_awake(struct fgi_awake *a, sem_t *sem, clockid_t clock, const struct timespec *abs)
{
	if (take(sem))
		return true;
	fgi_awake_begin(a, sem);
	if (!fgi_awake_stay(a, take, sem, clock, abs))
		return false;
	fgi_awake_end(a, false, 0);
	return true;
}

/* glibc has waited. When the token came is not known: at the latest now. */
static int after_sleep(const struct fgi_awake *a, int result)
{
	fgi_awake_end(a, true, result == 0 ? fgi_now_ns(CLOCK_MONOTONIC) : 0);
	return result;
}

/* Like glibc's, sem_wait and sem_timedwait are cancellation points also where there is a token, and sem_clockwait is
 * not. */
EXPORT int sem_wait(sem_t *sem)
{
	struct fgi_awake a;

	pthread_testcancel();
	if (wait_awake(&a, sem, CLOCK_MONOTONIC, NULL))
		return 0;
	return after_sleep(&a, fgi_real()->sem_wait(sem));
}

EXPORT int sem_timedwait(sem_t *restrict sem, const struct timespec *restrict abs)
{
	struct fgi_awake a;

	if (!fgi_is_time(abs))
		return fgi_real()->sem_timedwait(sem, abs);
	pthread_testcancel();
	if (wait_awake(&a, sem, CLOCK_REALTIME, abs))
		return 0;
	return after_sleep(&a, fgi_real()->sem_timedwait(sem, abs));
}

EXPORT int sem_clockwait(sem_t *restrict sem, clockid_t clock, const struct timespec *restrict abs)
{
	struct fgi_awake a;

	if (!fgi_is_clock(clock) || !fgi_is_time(abs))
		return fgi_real()->sem_clockwait(sem, clock, abs);
	if (wait_awake(&a, sem, clock, abs))
		return 0;
	return after_sleep(&a, fgi_real()->sem_clockwait(sem, clock, abs));
}
