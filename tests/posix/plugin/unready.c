/* SPDX-License-Identifier: MIT */
/* A library whose functions work from its constructor on: it finds there what it passes each call on to. They are those
 * by which an interposer could try at its start how glibc lays out its objects, and that may come earlier. */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>

#define WRAPPED(WRAP)                                                                                                  \
	WRAP(pthread_condattr_init, (pthread_condattr_t * attr), (attr))                                               \
	WRAP(pthread_condattr_setpshared, (pthread_condattr_t * attr, int shared), (attr, shared))                     \
	WRAP(pthread_condattr_setclock, (pthread_condattr_t * attr, clockid_t clock), (attr, clock))                   \
	WRAP(pthread_rwlockattr_init, (pthread_rwlockattr_t * attr), (attr))                                           \
	WRAP(pthread_rwlockattr_setpshared, (pthread_rwlockattr_t * attr, int shared), (attr, shared))                 \
	WRAP(pthread_rwlockattr_setkind_np, (pthread_rwlockattr_t * attr, int kind), (attr, kind))                     \
	WRAP(pthread_barrierattr_init, (pthread_barrierattr_t * attr), (attr))                                         \
	WRAP(pthread_barrierattr_setpshared, (pthread_barrierattr_t * attr, int shared), (attr, shared))               \
	WRAP(pthread_spin_init, (pthread_spinlock_t * lock, int shared), (lock, shared))                               \
	WRAP(pthread_setcancelstate, (int state, int *old), (state, old))                                              \
	WRAP(sem_init, (sem_t * sem, int shared, unsigned int tokens), (sem, shared, tokens))                          \
	WRAP(sem_trywait, (sem_t * sem), (sem))                                                                        \
	WRAP(sem_post, (sem_t * sem), (sem))

#define DEFINE(name, parameters, arguments)                                                                            \
	static int(*next_##name) parameters;                                                                           \
	__attribute__((visibility("default"))) int name parameters                                                     \
	{                                                                                                              \
		return next_##name arguments;                                                                          \
	}
WRAPPED(DEFINE)

#define FIND(name, parameters, arguments) next_##name = (__typeof__(next_##name))dlsym(RTLD_NEXT, #name);
__attribute__((constructor)) static void unready_start(void)
{
	WRAPPED(FIND)
}
