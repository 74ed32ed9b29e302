/* SPDX-License-Identifier: MIT */
/* Functions of libc whose callers the linker sends to the simulator (calls.c, models/): by these names the simulator
 * reaches the host's own. */
#ifndef FGS_HOST_H
#define FGS_HOST_H

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <time.h>

int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument);
int __real_sem_init(sem_t *sem, int shared, unsigned int value);
int __real_sem_wait(sem_t *sem);
int __real_sem_post(sem_t *sem);
FILE *__real_fopen(const char *file, const char *mode);
long __real_syscall(long number, ...);

#endif
