/* SPDX-License-Identifier: MIT */
#ifndef FGI_BLOCK_H
#define FGI_BLOCK_H

#include "abi/flexguard_abi.h"

/* This thread's block. Initial-exec TLS: its distance from the thread pointer is the same in all threads of the
 * process, and by that one number the monitor finds every thread's block. Exported: all shared objects with lock code
 * in a process share one block. */
extern __thread struct fg_thread_block fg_thread
	__attribute__((tls_model("initial-exec"), visibility("default"), aligned(FG_CACHE_LINE)));

#endif
