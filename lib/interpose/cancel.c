/* SPDX-License-Identifier: MIT */
/* pthread_setcanceltype and pthread_cancel: glibc's. Functions of locks need to know whether the type is asynchronous,
 * and whether a thread may have been cancelled at all, and glibc does not say. */
#include "interpose/cancel.h"

#include "interpose/real.h"
#include "runtime/atomic.h"
#include "runtime/cancel.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int pthread_setcanceltype(int type, int *old)
{
	int result = fgi_real()->setcanceltype(type, old);

	if (result == 0)
		fgi_async = type == PTHREAD_CANCEL_ASYNCHRONOUS;
	return result;
}

uint32_t fgi_cancels;

EXPORT int pthread_cancel(pthread_t thread)
{
	fg_store_relaxed(&fgi_cancels, 1);
	return fgi_real()->cancel(thread);
}
