/* SPDX-License-Identifier: MIT */
/* Condition variables of ours, whatever version of pthread_cond_* they are used with. */
#ifndef FGI_INTERPOSE_COND_H
#define FGI_INTERPOSE_COND_H

#include <pthread.h>
#include <stdbool.h>

#include "interpose/deadline.h"
#include "interpose/waitq.h"

static inline struct fgi_waitq *fgi_waitq_of(pthread_cond_t *cond)
{
	return (struct fgi_waitq *)cond;
}

/* abs NULL: without a deadline; otherwise valid. */
int fgi_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *abs);
void fgi_cond_signal(pthread_cond_t *cond);
void fgi_cond_broadcast(pthread_cond_t *cond);

#endif
