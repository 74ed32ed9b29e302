/* SPDX-License-Identifier: MIT */
/* fg_mutex_lock and fg_mutex_unlock without a call where no thread waits. Include it instead of <flexguard/mutex.h>:
 *
 *   #include <flexguard/inline.h>
 *   fg_mutex_lock(&m);      one compare-and-swap, inlined; a call only if the mutex is not free
 *   ...
 *   fg_mutex_unlock(&m);    one AND, inlined; a call only if a waiter is parked
 *
 * The price: the object file has the layout of the mutex and of the library's thread block in it. It names both by a
 * version, FG_INLINE_VERSION, in the functions that it calls when it must wait or wake. A libflexguard in which they
 * are laid out otherwise lacks these functions, so the program does not link, or does not start, until it is compiled
 * anew. Programs that are not compiled together with the library they run with should do without this header.
 *
 * Inlined and other calls may be mixed, on one mutex too; &fg_mutex_lock is the library's function. Memory order, and
 * what may be called when, are as <flexguard/mutex.h> says. On other machines than x86-64, and with other compilers
 * than GCC and Clang, it is the same as that header. */
#ifndef FLEXGUARD_INLINE_H
#define FLEXGUARD_INLINE_H

#include <flexguard/mutex.h>

#if defined(__x86_64__) && defined(__LP64__) && defined(__GNUC__)

#define FG_INLINE_VERSION 4
#define fg_inline_slow_lock fg_mutex_slow_lock_4
#define fg_inline_slow_unlock fg_mutex_slow_unlock_4
#define fg_inline_released fg_mutex_released_4

/* What follows is not for programs: the names may change without notice. */
#define FG_INLINE_FLAGS 0xe0000000u  /* what a release leaves in the word */
#define FG_INLINE_ASLEEP 0xa0000000u /* either set: the release has to look at the waiters first */
#define FG_INLINE_BARRIER() __asm__ volatile("" ::: "memory")
#define FG_INLINE extern __inline__ __attribute__((__gnu_inline__, __always_inline__, __artificial__))

#ifdef __cplusplus
extern "C" {
#endif

/* The mutex. Its bytes are also seen through the library's own types. */
struct fg_inline_word {
	uint32_t owner; /* a tid, and three flags above it */
	uint32_t ops;   /* acquisitions; only the owner counts */
} __attribute__((__may_alias__));

/* The calling thread, as the Preemption Monitor sees it. */
struct fg_inline_thread {
	int32_t held;     /* not used here: critical sections that it is in, besides the next */
	uint32_t self;    /* its tid; 0 until its first call into the library */
	uint64_t node;    /* not used here */
	uint64_t pending; /* the word that it has, or is about to take; 0: none */
};

extern __thread struct fg_inline_thread fg_inline_thread __asm__("fg_thread")
	__attribute__((__tls_model__("initial-exec")));

/* The library's: lock, perhaps after an attempt that failed; unlock; and what is left to do after the word was
 * released, if `pending` did not lead to it any more or a waiter sleeps. The last does not touch the mutex, which may
 * be gone. */
void fg_inline_slow_lock(struct fg_mutex *m, int attempted);
void fg_inline_slow_unlock(struct fg_mutex *m);
void fg_inline_released(struct fg_mutex *m, int ours, int sleeper);

FG_UNCHECKED FG_INLINE void fg_mutex_lock(struct fg_mutex *m)
{
	struct fg_inline_word *word = (struct fg_inline_word *)(void *)m;
	struct fg_inline_thread *thread = &fg_inline_thread;
	uint32_t nobody = 0, self = thread->self;
	int attempted = 0;

	if (__builtin_expect(self != 0 && thread->pending == 0, 1)) {
		thread->pending = (uint64_t)(uintptr_t)&word->owner;
		FG_INLINE_BARRIER();
		if (__builtin_expect(__atomic_compare_exchange_n(&word->owner, &nobody, self, 0, __ATOMIC_ACQUIRE,
								 __ATOMIC_RELAXED),
				     1)) {
			__asm__ volatile("addl $1, %[ops]" : [ops] "+m"(word->ops) : : "memory", "cc");
			return;
		}
		FG_INLINE_BARRIER();
		attempted = 1;
	}
	fg_inline_slow_lock(m, attempted);
}

/* release: x86 keeps the order of stores. The AND is not locked: it need only be atomic against interrupts, since a
 * waiter that goes to sleep first sets its flag and then interrupts every CPU of the process. The same holds for the
 * subtraction that leaves 0 in `pending`, unless a signal handler that locks has changed it. */
FG_UNCHECKED FG_INLINE void fg_mutex_unlock(struct fg_mutex *m)
{
	struct fg_inline_word *word = (struct fg_inline_word *)(void *)m;
	struct fg_inline_thread *thread = &fg_inline_thread;
	int sleeper, ours;

	if (__builtin_expect(thread->pending != (uint64_t)(uintptr_t)&word->owner ||
				     (__atomic_load_n(&word->owner, __ATOMIC_RELAXED) & FG_INLINE_ASLEEP),
			     0)) {
		fg_inline_slow_unlock(m);
		return;
	}
	FG_INLINE_BARRIER();
	__asm__ volatile("andl %[kept], %[owner]"
			 : [owner] "+m"(word->owner), "=@ccs"(sleeper)
			 : [kept] "er"(FG_INLINE_FLAGS)
			 : "memory");
	FG_INLINE_BARRIER();
	__asm__ volatile("subq %[word], %[pending]"
			 : [pending] "+m"(thread->pending), "=@ccz"(ours)
			 : [word] "r"((uint64_t)(uintptr_t)&word->owner)
			 : "memory");
	FG_INLINE_BARRIER();
	if (__builtin_expect(sleeper | !ours, 0))
		fg_inline_released(m, ours, sleeper);
}

#ifdef __cplusplus
}
#endif

#endif
#endif
