/* SPDX-License-Identifier: MIT */
/* Where the calling thread runs. */
#ifndef FGI_CPU_H
#define FGI_CPU_H

#include <linux/rseq.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/system.h"

/* Of glibc's restartable-sequences area, from the thread pointer; absent before glibc 2.35. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

/* The CPU that this thread runs on: a load if glibc has registered a restartable-sequences area, which the kernel keeps
 * up to date; otherwise a call into the vDSO. */
static inline uint32_t fgi_cpu(void)
{
	if (fg_likely(&__rseq_size && __rseq_size)) {
		const char *area = (const char *)__builtin_thread_pointer() + __rseq_offset;

		return fg_load_relaxed(&((const struct rseq *)area)->cpu_id);
	}
	return fgi_cpu_number();
}

#endif
