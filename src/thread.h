/* SPDX-License-Identifier: MIT */
/* The thread block: what this thread publishes to the Preemption Monitor (abi/flexguard_abi.h). */
#ifndef FGI_THREAD_H
#define FGI_THREAD_H

#include "abi/flexguard_abi.h"
#include "src/atomic.h"

/* Initial-exec, so that its distance from the thread pointer is one constant for the whole process: that constant is
 * all the monitor needs to find every thread's block. Exported, so that several shared objects with lock code in one
 * process share one block. */
extern __thread struct fg_thread_block fg_thread
	__attribute__((tls_model("initial-exec"), visibility("default"), aligned(FG_CACHE_LINE)));

uint32_t fgi_thread_init(void);

/* Has the child of each fork begin with repairing this runtime. Idempotent; run by a constructor, or before it by who
 * knows of handlers that must come later (preload/atfork.c). */
void fgi_thread_atfork(void);

/* How many forks lie behind this process, times two: lock words that count waiters must forget those whose threads
 * stayed in the parent (locks/tickets.h). Written by the child's fork handler, when it has one thread. */
extern uint32_t fgi_forks;

/* This thread's tid: how lock words name it. The first call of a thread also registers the process with the monitor,
 * if no constructor has done so yet. Async-signal-safe, keeps errno. */
static inline uint32_t fgi_self(void)
{
	uint32_t self = fg_thread.self;

	return fg_likely(self) ? self : fgi_thread_init();
}

/* Publishing. Each is one plain store, in program order with everything around it. */
static inline void fgi_held_raise(void)
{
	fg_compiler_barrier();
	fg_thread.held++;
	fg_compiler_barrier();
}

static inline void fgi_held_lower(void)
{
	fg_compiler_barrier();
	fg_thread.held--;
	fg_compiler_barrier();
}

static inline void fgi_publish_node(const struct fg_queue_node *node)
{
	fg_compiler_barrier();
	fg_thread.node = (uint64_t)(uintptr_t)node;
	fg_compiler_barrier();
}

static inline void fgi_publish_intent(const uint32_t *word)
{
	fg_compiler_barrier();
	fg_thread.pending = (uint64_t)(uintptr_t)word;
	fg_compiler_barrier();
}

#endif
