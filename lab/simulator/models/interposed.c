/* SPDX-License-Identifier: MIT */
/* In place of lib/interpose/real.c and atfork.c: what is behind the interposer's functions in a simulated program.
 * glibc's own initialise objects. A thread that sleeps on a semaphore does so in its model. No simulated process
 * forks. */
#include "interpose/atfork.h"
#include "interpose/glibc_layout.h"
#include "interpose/real.h"

__thread struct fgi_carried fgi_carried;
uint32_t fgi_cancels;

int __real_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes);
int __real_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attributes);
int __real_pthread_rwlock_init(pthread_rwlock_t *lock, const pthread_rwlockattr_t *attributes);
int __real_pthread_barrier_init(pthread_barrier_t *barrier, const pthread_barrierattr_t *attributes,
				unsigned int count);
int fgs_model_sem_wait(sem_t *sem);
int fgs_model_sem_timedwait(sem_t *sem, const struct timespec *until);
int fgs_model_sem_clockwait(sem_t *sem, clockid_t clock, const struct timespec *until);

struct fgi_real fgi_real_table = {
	.mutex_init = __real_pthread_mutex_init,
	.cond_init = __real_pthread_cond_init,
	.rwlock_init = __real_pthread_rwlock_init,
	.barrier_init = __real_pthread_barrier_init,
	.sem_wait = fgs_model_sem_wait,
	.sem_timedwait = fgs_model_sem_timedwait,
	.sem_clockwait = fgs_model_sem_clockwait,
};
int fgi_real_found;

void fgi_real_find(void)
{
	fgi_real_table.rwlock_understood = fgi_glibc_knows_rwlock(fgi_real_table.rwlock_init);
	fgi_real_table.barrier_understood = fgi_glibc_knows_barrier(fgi_real_table.barrier_init);
	fgi_real_table.sem_understood = 1; /* the model has glibc's layout */
	fgi_real_table.cond_flags_at = fgi_glibc_find_cond_flags(fgi_real_table.cond_init);
	fg_store_release(&fgi_real_found, 1); /* pairs with fgi_real */
}

__attribute__((constructor)) static void find(void)
{
	fgi_real_find();
}
