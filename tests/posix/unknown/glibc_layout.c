/* SPDX-License-Identifier: MIT */
/* In the place of interpose/glibc_layout.c: a glibc none of whose objects is understood, so that all but mutexes are
 * left to it. */
#include "interpose/glibc_layout.h"

uint32_t fgi_glibc_find_cond_flags(__typeof__(pthread_cond_init) *init)
{
	(void)init;
	return 0;
}

bool fgi_glibc_knows_rwlock(__typeof__(pthread_rwlock_init) *init)
{
	(void)init;
	return false;
}

bool fgi_glibc_knows_barrier(__typeof__(pthread_barrier_init) *init)
{
	(void)init;
	return false;
}

bool fgi_glibc_knows_sem(__typeof__(sem_wait) *wait)
{
	(void)wait;
	return false;
}

bool fgi_glibc_knows_spin(__typeof__(pthread_spin_lock) *lock)
{
	(void)lock;
	return false;
}
