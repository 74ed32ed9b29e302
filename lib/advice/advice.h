/* SPDX-License-Identifier: MIT */
/* Inside the library: the calling thread's handle, and the advice by which the shared mutex waits. */
#ifndef FGI_ADVICE_H
#define FGI_ADVICE_H

#include <stdint.h>

#include "advice/page.h"
#include "runtime/thread.h"

uint64_t fgi_new_handle(void);

static inline fg_handle fgi_own_handle(void)
{
	return fg_likely(fg_thread.life) ? fgi_handle_of(fg_thread.self, fg_thread.life) : fgi_new_handle();
}

struct fg_advice fgi_advice(const struct fg_wait *w);

#endif
