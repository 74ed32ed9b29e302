/* SPDX-License-Identifier: MIT */
/* The thread block: what this thread publishes to the Preemption Monitor (abi/flexguard_abi.h). */
#ifndef FGI_THREAD_H
#define FGI_THREAD_H

#include <stdbool.h>

#include "runtime/arch/arch.h"
#include "runtime/atomic.h"
#include "runtime/block.h"

uint32_t fgi_thread_init(void);

/* Registers the fork handlers that repair this runtime in the child. Idempotent. A constructor calls it; the interposer
 * calls it before that, so that the handlers of other libraries come later (interpose/atfork.c). */
void fgi_thread_atfork(void);
void fgi_thread_before_fork(void); /* those handlers: in the thread that forks, and in the child */
void fgi_thread_after_fork(void);

/* What the kernel sets to 0 in each child that has memory of its own, whether its fork runs handlers or is a system
 * call alone (MADV_WIPEONFORK, Linux 4.14). An older one copies it. */
struct fgi_of_process {
	uint32_t number;  /* advice/advice.h */
	uint32_t started; /* 1: since its start, or a fork's handlers, nothing has been wiped */
};
extern struct fgi_of_process *fgi_of_process;

/* False in a vfork child, which runs in its parent's memory and must not change there what concerns the parent. Libc's
 * tid is the parent's there, as in the child of a system call that forks. One system call. */
bool fgi_is_own_memory(void);

/* Twice the number of forks between this process and the first one. By it a lock word that counts waiters knows that
 * their threads stayed in the parent. The child's fork handler writes it while the child has
 * one thread. */
extern uint32_t fgi_forks;

/* This thread's tid, by which lock words name it. The first call also registers the process with the monitor, if no
 * constructor has done so yet. Async-signal-safe, keeps errno. */
static inline uint32_t fgi_self(void)
{
	uint32_t self = fg_thread.self;

	return fg_likely(self) ? self : fgi_thread_init();
}

/* Publishing. Each store is a plain one, in program order with everything around it. A change that depends on the old
 * value is one instruction, since a signal handler that locks may move `pending` into `held` in between. */
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

/* Published intent, for locks whose word names its owner. `pending` points to the word from before the instruction that
 * takes the lock until after the one that releases it. It holds one address: when this thread goes for another lock,
 * the lock that `pending` shows is counted in `held` instead. All locks share `pending`, so only the functions below
 * may change it.
 *
 *   fgi_intent_set(&l->word);               fgi_intent_restore(&l->word);
 *   if (compare-and-swap)                      release
 *       return true;                           fgi_intent_clear(&l->word);
 *   fgi_intent_clear(&l->word);
 *
 * A signal handler may lock and unlock between any two instructions here. It leaves `pending` 0, and one more in `held`
 * if `pending` was not 0. Handler and interrupted code count in the same way, so no lock is lost or counted twice. */

/* A lock may be released by another thread than took it (runtime/foreign.c). The first two: the calling thread is about
 * to release what the word says another thread owns; it counts the lock from here on, as its release expects, or does
 * not. The third: the owner was this thread, before it was forked; then it counts the lock. The fourth: the calling
 * thread no longer counts what others have released. The last two: in the child, whose thread was `forker`. The
 * former leaves the notes: other threads may have begun. */
extern uint32_t fgi_foreign_notes; /* not settled yet */
void fgi_foreign_release(const uint32_t *word);
void fgi_foreign_note(uint32_t owner, const uint32_t *word);
bool fgi_foreign_carried(uint32_t owner);
void fgi_foreign_settle(void);
void fgi_foreign_born(void); /* the calling thread begins, perhaps with a tid that another had */
void fgi_foreign_renamed(uint32_t forker);
void fgi_foreign_after_fork(uint32_t forker);

/* Counts in `held` the lock that `pending` shows, and sets `pending` to `next`. */
static inline void fgi_pending_into_held(uint64_t next)
{
	uint64_t pending;

	if (fg_unlikely(fg_load_relaxed(&fgi_foreign_notes)))
		fgi_foreign_settle();
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

/* Puts the word back into `pending` if `held` counts it by now. The word that is there instead is counted in `held`. */
static inline void fgi_intent_restore(const uint32_t *word)
{
	uint64_t mine = (uint64_t)(uintptr_t)word, pending;

	fg_compiler_barrier();
	if (fg_unlikely(fg_thread.pending != mine) &&
	    fg_unlikely((fg_load_relaxed(word) & FG_OWNER_MASK) != fg_thread.self))
		fgi_foreign_release(word);
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

/* For the case that `pending` was not 0 after `mine` was subtracted from it: a signal handler had counted the lock in
 * `held` and left `pending` 0, and the difference that stands there now is no address. */
static inline void fgi_intent_clear_held(uint64_t mine)
{
	if (fgi_local_cas(&fg_thread.pending, -mine, 0) != -mine)
		fgi_held_lower(); /* another handler has counted the difference as a lock */
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

/* How many locks this thread holds, by what it tells the monitor. Only to be called outside of lock calls. */
static inline int32_t fgi_sections(void)
{
	return fg_thread.held + (fg_thread.pending != 0);
}

#endif
