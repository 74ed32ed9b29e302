/* SPDX-License-Identifier: MIT */
/* The thread block: what this thread publishes to the Preemption Monitor (abi/flexguard_abi.h). */
#ifndef FGI_THREAD_H
#define FGI_THREAD_H

#include "runtime/arch/arch.h"
#include "runtime/atomic.h"
#include "runtime/block.h"

uint32_t fgi_thread_init(void);

/* Has the child of each fork begin with repairing this runtime. Idempotent; run by a constructor, or before it by who
 * knows of handlers that must come later (interpose/atfork.c). */
void fgi_thread_atfork(void);

/* How many forks lie behind this process, times two: lock words that count waiters must forget those whose threads
 * stayed in the parent (locks/parts/tickets.h). Written by the child's fork handler, when it has one thread. */
extern uint32_t fgi_forks;

/* This thread's tid: how lock words name it. The first call of a thread also registers the process with the monitor,
 * if no constructor has done so yet. Async-signal-safe, keeps errno. */
static inline uint32_t fgi_self(void)
{
	uint32_t self = fg_thread.self;

	return fg_likely(self) ? self : fgi_thread_init();
}

/* Publishing. Each store is a plain one, in program order with everything around it. What changes a word by what it was
 * does so in one instruction, since a signal handler that locks may move `pending` into `held` in between. */
static inline void fgi_held_raise(void)
{
	fg_compiler_barrier();
	fgi_local_add(&fg_thread.held, 1);
	fg_compiler_barrier();
}

static inline void fgi_held_lower(void)
{
	fg_compiler_barrier();
	fgi_local_add(&fg_thread.held, -1);
	fg_compiler_barrier();
}

static inline void fgi_publish_node(const struct fg_queue_node *node)
{
	fg_compiler_barrier();
	fg_thread.node = (uint64_t)(uintptr_t)node;
	fg_compiler_barrier();
}

/* Published intent, for locks whose word names its owner. `pending` leads to the word from before the instruction that
 * takes it until after the one that releases it: so it is the account of the lock, too. It holds one lock. When this
 * thread goes for another, `held` counts the one that it has instead.
 *
 *   fgi_intent_set(&l->word);               fgi_intent_restore(&l->word);
 *   if (compare-and-swap)                      release
 *       return true;                           fgi_intent_clear(&l->word);
 *   fgi_intent_clear(&l->word);
 *
 * A signal handler may lock and unlock between any two instructions here: it leaves `pending` 0, and one more in `held`
 * if it was not 0. Both sides count alike, so that neither is lost nor found twice. */

/* Counts in `held` what `pending` leads to, which becomes `next`. */
static inline void fgi_pending_into_held(uint64_t next)
{
	uint64_t pending;

	while ((pending = fg_thread.pending) != 0) {
		fgi_held_raise();
		if (fgi_local_cas(&fg_thread.pending, pending, next) == pending)
			return;
		fgi_held_lower();
	}
	fg_thread.pending = next;
}

static inline void fgi_intent_set(const uint32_t *word)
{
	fg_compiler_barrier();
	if (fg_unlikely(fg_thread.pending != 0))
		fgi_pending_into_held((uint64_t)(uintptr_t)word);
	else
		fg_thread.pending = (uint64_t)(uintptr_t)word;
	fg_compiler_barrier();
}

/* Brings the word back to `pending`, if `held` counts it meanwhile: in exchange for the one that is there. */
static inline void fgi_intent_restore(const uint32_t *word)
{
	uint64_t mine = (uint64_t)(uintptr_t)word, pending;

	fg_compiler_barrier();
	while (fg_unlikely((pending = fg_thread.pending) != mine)) {
		if (!pending) {
			fg_thread.pending = mine;
			fgi_held_lower();
			break;
		}
		fgi_local_cas(&fg_thread.pending, pending, mine);
	}
	fg_compiler_barrier();
}

/* After `mine` was subtracted from `pending` and something was left: a handler had counted it in `held`, so that
 * `pending` was 0, and what is there now is the difference, nobody's address. */
static inline void fgi_intent_clear_held(uint64_t mine)
{
	if (fgi_local_cas(&fg_thread.pending, -mine, 0) != -mine)
		fgi_held_lower(); /* another handler has counted the difference, too */
	fgi_held_lower();
}

/* This thread does not own the word: not yet, or no longer. The word is not touched. */
static inline void fgi_intent_clear(const uint32_t *word)
{
	uint64_t mine = (uint64_t)(uintptr_t)word;

	fg_compiler_barrier();
	if (fg_unlikely(!fgi_local_subtract(&fg_thread.pending, mine)))
		fgi_intent_clear_held(mine);
	fg_compiler_barrier();
}

/* How many locks this thread has, as it tells the monitor. To be asked outside of lock calls. */
static inline int32_t fgi_sections(void)
{
	return fg_thread.held + (fg_thread.pending != 0);
}

#endif
