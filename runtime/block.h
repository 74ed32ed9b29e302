/* SPDX-License-Identifier: MIT */
#ifndef FGI_BLOCK_H
#define FGI_BLOCK_H

#include "abi/flexguard_abi.h"

/* This thread's block. Initial-exec, so that its distance from the thread pointer is one constant for the whole
 * process: that constant is all the monitor needs to find every thread's block. Exported, so that several shared
 * objects with lock code in one process share one block. */
extern __thread struct fg_thread_block fg_thread
	__attribute__((tls_model("initial-exec"), visibility("default"), aligned(FG_CACHE_LINE)));

#endif
