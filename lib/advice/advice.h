/* SPDX-License-Identifier: MIT */
/* Inside the library: the calling thread's handle, and the advice by which the shared mutex waits. */
#ifndef FGI_ADVICE_H
#define FGI_ADVICE_H

#include <stdint.h>

#include "advice/page.h"
#include "runtime/thread.h"

/* A fork without handlers (_Fork, the system calls) leaves the parent's handle to the child. So each process has a
 * number, and the kernel sets it to 0 in any child. By it a thread knows its handle. */
extern __thread uint32_t fgi_handle_process __attribute__((tls_model("initial-exec"), visibility("hidden")));

uint64_t fgi_new_handle(void);

static inline fg_handle fgi_own_handle(void)
{
	uint32_t number = fg_load_relaxed(&fg_load_relaxed(&fgi_of_process)->number);

	if (fg_likely(fg_thread.life && number && fgi_handle_process == number))
		return fgi_handle_of(fg_thread.self, fg_thread.life);
	return fgi_new_handle();
}

struct fg_advice fgi_advice(const struct fg_wait *w);

#endif
