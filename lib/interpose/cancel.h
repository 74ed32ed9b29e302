/* SPDX-License-Identifier: MIT */
#ifndef FGI_INTERPOSE_CANCEL_H
#define FGI_INTERPOSE_CANCEL_H

#include <pthread.h>

#include "runtime/atomic.h"

/* Has any thread of this process been cancelled? Until then no call has to ask glibc whether its caller was. */
extern uint32_t fgi_cancels;

/* pthread_testcancel. relaxed: a thread that must find itself cancelled has synchronised with the one that did it. */
static inline void fgi_test_cancel(void)
{
	if (fg_unlikely(fg_load_relaxed(&fgi_cancels)))
		pthread_testcancel();
}

#endif
