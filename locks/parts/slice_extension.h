/* SPDX-License-Identifier: MIT */
/* The kernel's time-slice extension (Linux 7.0 and later, CONFIG_RSEQ_SLICE_EXTENSION; section 2.4): a thread in a
 * critical section that is due to lose its CPU gets some microseconds more to leave it.
 *
 * The protocol, of two bytes in the thread's restartable-sequences area that only this thread and, on its CPU, the
 * kernel touch:
 *
 *   request  granted   meaning
 *   0        0         no extension wanted, or it ran out or was revoked
 *   1        0         in a critical section, not interrupted yet
 *   0        1         the slice is over, the thread runs on borrowed time: leave, and call rseq_slice_yield
 *
 * The area must be longer than the 32 bytes of the first kernels: glibc 2.41 registers such a one. With an older glibc
 * it must be told to register none (GLIBC_TUNABLES=glibc.pthread.rseq=0, which `flexguard run` does); then each thread
 * registers its own, here, when it first asks. Where that fails all this does nothing.
 *
 * A vfork child runs on its parent's area, which is not its own: it gets no extensions. */
#ifndef FGI_SLICE_EXTENSION_H
#define FGI_SLICE_EXTENSION_H

#include <stdint.h>

#include "runtime/atomic.h"

struct fgi_slice_control {
	volatile uint8_t request;
	volatile uint8_t granted;
};

/* This thread's two bytes, two that nobody looks at, or NULL: not tried yet. */
extern __thread struct fgi_slice_control *fgi_slice_control
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Makes the extension available to this thread. 0, or why not: EINVAL the kernel knows none; ENOTSUPP (524) it was
 * built or booted without, or glibc's area is too short; EBUSY another library has registered an area; others from
 * rseq(2). Async-signal-safe, keeps errno. May be called again. */
int fgi_slice_extension_start(void);

void fgi_slice_yield(void);

/* For tests: an extension was granted, and is about to be given back. */
#ifndef FGI_SLICE_GRANTED
#define FGI_SLICE_GRANTED() ((void)0)
#endif

/* The thread is in a critical section now. A request that was used up in an enclosing section is made anew: then the
 * kernel takes no notice, for it grants one at a time. */
static inline void fgi_slice_request(void)
{
	if (fg_unlikely(!fgi_slice_control))
		fgi_slice_extension_start();
	fgi_slice_control->request = 1;
	fg_compiler_barrier();
}

/* The thread is in none any more. */
static inline void fgi_slice_withdraw(void)
{
	struct fgi_slice_control *control = fgi_slice_control;

	if (fg_unlikely(!control))
		return;
	fg_compiler_barrier();
	control->request = 0;
	if (fg_unlikely(control->granted)) {
		FGI_SLICE_GRANTED();
		fgi_slice_yield();
	}
}

#endif
