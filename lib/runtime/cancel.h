/* SPDX-License-Identifier: MIT */
/* Asynchronous cancellation. No function of a lock is safe from it by POSIX, but under glibc a thread that is cancelled
 * while it waits harms no other. Ours keep nodes and locks that others need. So they suspend it. Only the sleep
 * itself can be cancelled, in frames with cleanup handlers. */
#ifndef FGI_CANCEL_H
#define FGI_CANCEL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/atomic.h"

/* May this thread's cancellation type be asynchronous? Only interposers know (interpose/cancel.c). In a signal handler
 * that has interrupted a change of the type it may be either. */
extern __thread uint32_t fgi_async __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Returns what fgi_async_resume is to be told. */
static inline bool fgi_async_suspend(void)
{
	uint32_t noted = fgi_async;
	int type;

	if (fg_likely(!noted))
		return false;
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
	if (type == PTHREAD_CANCEL_ASYNCHRONOUS)
		return true;
	fgi_async = noted; /* the change that this handler has interrupted goes on */
	return false;
}

static inline void fgi_async_resume(bool suspended)
{
	if (fg_unlikely(suspended))
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
}

#endif
