/* SPDX-License-Identifier: MIT */
/* A library that wraps functions of mutexes and condition variables for reasons of its own, as many a tool does: it
 * counts the calls and passes them on to the next library that has the function. */
#include <dlfcn.h>
#include <pthread.h>

int wrapper_calls;

#define WRAP(name, parameters, arguments)                                                                              \
	__attribute__((visibility("default"))) int name parameters                                                     \
	{                                                                                                              \
		static int(*next) parameters;                                                                          \
                                                                                                                       \
		if (!__atomic_load_n(&next, __ATOMIC_RELAXED))                                                         \
			__atomic_store_n(&next, (__typeof__(next))dlsym(RTLD_NEXT, #name), __ATOMIC_RELAXED);          \
		__atomic_fetch_add(&wrapper_calls, 1, __ATOMIC_RELAXED);                                               \
		return __atomic_load_n(&next, __ATOMIC_RELAXED) arguments;                                             \
	}

WRAP(pthread_mutex_lock, (pthread_mutex_t * m), (m))
WRAP(pthread_mutex_trylock, (pthread_mutex_t * m), (m))
WRAP(pthread_mutex_timedlock, (pthread_mutex_t *restrict m, const struct timespec *restrict abs), (m, abs))
WRAP(pthread_mutex_unlock, (pthread_mutex_t * m), (m))
WRAP(pthread_mutex_init, (pthread_mutex_t *restrict m, const pthread_mutexattr_t *restrict attr), (m, attr))
WRAP(pthread_mutex_destroy, (pthread_mutex_t * m), (m))
WRAP(pthread_rwlock_rdlock, (pthread_rwlock_t * l), (l))
WRAP(pthread_rwlock_wrlock, (pthread_rwlock_t * l), (l))
WRAP(pthread_rwlock_unlock, (pthread_rwlock_t * l), (l))
WRAP(pthread_setcanceltype, (int type, int *old), (type, old))
