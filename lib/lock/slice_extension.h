/* SPDX-License-Identifier: MIT */
/* The kernel's time-slice extension (Linux 7.0 and later, CONFIG_RSEQ_SLICE_EXTENSION; section 2.4): a thread in a
 * critical section that is due to lose its CPU gets some microseconds more to leave it.
 *
 * The protocol uses two bytes in the thread's restartable-sequences area, which only this thread and, on its CPU, the
 * kernel touch:
 *
 *   request  granted   meaning
 *   0        0         no extension wanted, or it ran out or was revoked
 *   1        0         in a critical section, not interrupted yet
 *   0        1         the slice is over and was extended: the thread must leave the section and call rseq_slice_yield
 *
 * The area must be longer than the 32 bytes of the first kernels. glibc 2.41 registers one that is. An older glibc must
 * be told to register none (GLIBC_TUNABLES=glibc.pthread.rseq=0, which `flexguard run` sets); then each thread
 * registers its own area here when it first requests. If that fails, requests have no effect.
 *
 * A vfork child runs on its parent's area, which is not its own: it gets no extensions. */
#ifndef FGI_LOCK_SLICE_EXTENSION_H
#define FGI_LOCK_SLICE_EXTENSION_H

#include <stdint.h>

#include "runtime/atomic.h"

struct fgi_slice_control {
	volatile uint8_t request;
	volatile uint8_t granted;
};

/* This thread's two bytes; or two that the kernel does not know; or NULL: not tried yet. */
extern __thread struct fgi_slice_control *fgi_slice_control
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Makes the extension available to this thread. Returns 0, or why it is not available: EINVAL the kernel has none;
 * ENOTSUPP (524) it was built or booted without it, or glibc's area is too short; EBUSY another library has registered
 * an area; others from rseq(2). Async-signal-safe, keeps errno. May be called again. */
int fgi_slice_extension_start(void);

void fgi_slice_yield(void);

/* For tests: an extension was granted and is about to be given back. */
#ifndef FGI_SLICE_GRANTED
#define FGI_SLICE_GRANTED() ((void)0)
#endif

/* The thread has entered a critical section. If an extension was granted in an enclosing section already, the kernel
 * ignores this request: it grants one at a time. */
static inline void fgi_slice_request(void)
{
	if (fg_unlikely(!fgi_slice_control))
		fgi_slice_extension_start();
	fgi_slice_control->request = 1;
	fg_compiler_barrier();
}

/* The thread has left its last critical section. */
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
