/* SPDX-License-Identifier: MIT */
/* The operations that take or release a lock, without windows: C, as ThreadSanitizer sees it, and a beginning for an
 * architecture whose registers the monitor does not read (runtime/arch/x86_64/window.h has the exact ones, and says
 * what each does).
 *
 * Each is an atomic operation with the raising or lowering of `held` beside it. `held` is raised after the instruction
 * that takes and lowered before the one that releases, so a preemption between the two goes unseen.
 *
 * Order: what takes is an acquire, what releases a release, and what may do either both. No lock may depend on more. */
#ifndef FGI_ARCH_WINDOW_H
#define FGI_ARCH_WINDOW_H

#include "runtime/arch/window_entry.h"
#include "runtime/atomic.h"
#include "runtime/block.h"

static inline void fgi_window_held(int32_t change)
{
	fg_compiler_barrier();
	fgi_local_add(&fg_thread.held, change);
	fg_compiler_barrier();
}

static inline uint32_t fgi_take_xchg32(uint32_t *word, uint32_t value)
{
	uint32_t found = fg_xchg_acq_rel(word, value);

	if (found == 0)
		fgi_window_held(1);
	return found;
}

static inline uint32_t fgi_drop_xchg32(uint32_t *word, uint32_t value)
{
	fgi_window_held(-1);
	return fg_xchg_acq_rel(word, value);
}

static inline void fgi_drop_store32(uint32_t *word, uint32_t value)
{
	fgi_window_held(-1);
	fg_store_release(word, value);
}

#define FGI_TAKE_AND_DROP_CAS(bits)                                                                                    \
	static inline uint##bits##_t fgi_take_cas##bits(uint##bits##_t *word, uint##bits##_t desired)                  \
	{                                                                                                              \
		uint##bits##_t found = fg_cas_acq_rel(word, 0, desired);                                               \
                                                                                                                       \
		if (found == 0)                                                                                        \
			fgi_window_held(1);                                                                            \
		return found;                                                                                          \
	}                                                                                                              \
                                                                                                                       \
	static inline uint##bits##_t fgi_drop_cas##bits(uint##bits##_t *word, uint##bits##_t expected,                 \
							uint##bits##_t desired)                                        \
	{                                                                                                              \
		uint##bits##_t found;                                                                                  \
                                                                                                                       \
		fgi_window_held(-1);                                                                                   \
		found = fg_cas_acq_rel(word, expected, desired);                                                       \
		if (found != expected)                                                                                 \
			fgi_window_held(1);                                                                            \
		return found;                                                                                          \
	}
FGI_TAKE_AND_DROP_CAS(32)
FGI_TAKE_AND_DROP_CAS(64)

/* release of the link: pairs with the acquire by which the predecessor finds its successor. */
static inline void fgi_enqueue(uint64_t *tail, struct fg_queue_node *node, uint64_t tag)
{
	uint64_t pred = fg_xchg_acq_rel(tail, (uint64_t)(uintptr_t)node + tag);

	if (pred)
		fg_store_release(&((struct fg_queue_node *)(uintptr_t)(pred - tag))->next, (uint64_t)(uintptr_t)node);
	else
		fg_store_release(&node->state, FG_NODE_GRANTED);
}

#endif
