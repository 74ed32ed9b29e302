/* SPDX-License-Identifier: MIT */
/* To be preloaded: a mutex that excludes nobody, and condition variables and semaphores that wait for nothing. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	(void)mutex;
	return 0;
}

EXPORT int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	(void)mutex;
	return 0;
}

EXPORT int pthread_cond_wait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex)
{
	(void)cond;
	(void)mutex;
	return sched_yield();
}

/* Too early. */
EXPORT int pthread_cond_clockwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex, clockid_t clock,
				  const struct timespec *restrict abs)
{
	(void)cond;
	(void)mutex;
	(void)clock;
	(void)abs;
	return ETIMEDOUT;
}

EXPORT int sem_wait(sem_t *sem)
{
	(void)sem;
	return 0;
}
