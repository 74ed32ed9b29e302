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
	uint32_t before = fgi_async;
	int result;

	if (type == PTHREAD_CANCEL_ASYNCHRONOUS)
		fgi_async = 1; /* before it is so: a handler may come between */
	result = fgi_real()->setcanceltype(type, old);
	fgi_async = result == 0 ? type == PTHREAD_CANCEL_ASYNCHRONOUS : before;
	return result;
}

uint32_t fgi_cancels;

EXPORT int pthread_cancel(pthread_t thread)
{
	fg_store_relaxed(&fgi_cancels, 1);
	return fgi_real()->cancel(thread);
}
