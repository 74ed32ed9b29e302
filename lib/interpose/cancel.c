/* SPDX-License-Identifier: MIT */
/* pthread_setcanceltype: glibc's. Functions of locks need to know whether the type is asynchronous, and glibc does not
 * say. */
#include "runtime/cancel.h"

#include "interpose/real.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int pthread_setcanceltype(int type, int *old)
{
	int result = fgi_real()->setcanceltype(type, old);

	if (result == 0)
		fgi_async = type == PTHREAD_CANCEL_ASYNCHRONOUS;
	return result;
}
