/* SPDX-License-Identifier: MIT */
/* Everything that the interposer knows about glibc: where a mutex keeps its kind and a condition variable its flags,
 * how both are encoded, and the symbol versions of the functions behind ours. No other file may depend on glibc's
 * layout. The asserts compare it with the headers that programs are compiled with; tests/posix/mutex_static.c does so
 * for the static initializers, which C does not accept in an assert. */
#ifndef FGI_GLIBC_LAYOUT_H
#define FGI_GLIBC_LAYOUT_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kind word of a mutex. It is not looked for: programs have it compiled into their static initializers, with its
 * place and its values, so that no glibc can move it. */
#define FGI_GLIBC_NORMAL PTHREAD_MUTEX_TIMED_NP
#define FGI_GLIBC_RECURSIVE PTHREAD_MUTEX_RECURSIVE_NP
#define FGI_GLIBC_ERRORCHECK PTHREAD_MUTEX_ERRORCHECK_NP
#define FGI_GLIBC_ADAPTIVE PTHREAD_MUTEX_ADAPTIVE_NP
#define FGI_GLIBC_KINDS 0x3u     /* the bits of those four */
#define FGI_GLIBC_ELISION 0x300u /* wishes about lock elision, which mean nothing here */
#define FGI_GLIBC_DESTROYED (-1) /* what pthread_mutex_destroy leaves: no function accepts it */
#define FGI_GLIBC_SHARED 0x80    /* with robust 0x10, inherit 0x20, protect 0x40, and whatever comes later: glibc's */

/* The flag word of a condition variable. */
#define FGI_GLIBC_COND_SHARED 0x1u
#define FGI_GLIBC_COND_MONOTONIC 0x2u

/* Where a condition variable keeps its flag word: at 36 up to glibc 2.40, at 28 from 2.41. A program runs with another
 * glibc than the one that we are compiled with, so the word is looked for at the start: in an object that glibc's
 * pthread_cond_init has initialised with both flags. 0: the object is not understood. */
uint32_t fgi_glibc_find_cond_flags(__typeof__(pthread_cond_init) *init);

/* A read-write lock: where it says that it is shared, and its kind. Both are looked for at the start, too. */
#define FGI_GLIBC_RWLOCK_SHARED_AT 28
#define FGI_GLIBC_RWLOCK_KIND_AT 48
#define FGI_GLIBC_RWLOCK_WRITERS PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP
bool fgi_glibc_knows_rwlock(__typeof__(pthread_rwlock_init) *init);

/* A barrier: where it says that it is shared. Looked for at the start. */
#define FGI_GLIBC_BARRIER_SHARED_AT 12
bool fgi_glibc_knows_barrier(__typeof__(pthread_barrier_init) *init);

/* A semaphore: its tokens, in the low half of its first 64 bits. glibc's sem_wait and sem_trywait take one by
 * subtracting 1 there. The latter is tried at the start. */
#define FGI_GLIBC_SEM_TOKENS 0xffffffffull
bool fgi_glibc_knows_sem(__typeof__(sem_wait) *wait);

/* A spinlock has the two values FGI_GLIBC_SPIN_FREE and _HELD, and below the latter where glibc's waiters count on x86.
 * Also looked at. */
bool fgi_glibc_knows_spin(__typeof__(pthread_spin_lock) *lock);

#if defined(__x86_64__)
#define FGI_GLIBC_SPIN_FREE 1u
#define FGI_GLIBC_SPIN_HELD 0u
#define FGI_GLIBC_MUTEX_SIZE 40
#define FGI_GLIBC_KIND_AT 16
#define FGI_GLIBC_OWNER_AT 8
#define FGI_GLIBC_COUNT_AT 4
#define FGI_GLIBC_BASE "GLIBC_2.2.5"
#define FGI_GLIBC_COND "GLIBC_2.3.2" /* GLIBC_2.2.5 has smaller condition variables: interpose/cond_old.c */
#define FGI_GLIBC_ATFORK "GLIBC_2.3.2"
#define FGI_GLIBC_CONDATTR_CLOCK "GLIBC_2.3.3"
#define FGI_GLIBC_CEILING "GLIBC_2.4"
#define FGI_GLIBC_ROBUST "GLIBC_2.12"
#elif defined(__aarch64__)
#define FGI_GLIBC_SPIN_FREE 0u
#define FGI_GLIBC_SPIN_HELD 1u
#define FGI_GLIBC_MUTEX_SIZE 48
#define FGI_GLIBC_KIND_AT 16
#define FGI_GLIBC_OWNER_AT 8
#define FGI_GLIBC_COUNT_AT 4
#define FGI_GLIBC_BASE "GLIBC_2.17"
#define FGI_GLIBC_COND FGI_GLIBC_BASE
#define FGI_GLIBC_ATFORK FGI_GLIBC_BASE
#define FGI_GLIBC_CONDATTR_CLOCK FGI_GLIBC_BASE
#define FGI_GLIBC_CEILING FGI_GLIBC_BASE
#define FGI_GLIBC_ROBUST FGI_GLIBC_BASE
#else
#error "glibc's mutex layout on this machine has not been looked up"
#endif
#define FGI_GLIBC_CLOCK "GLIBC_2.30"
#define FGI_GLIBC_BARE_FORK "GLIBC_2.34"

_Static_assert(sizeof(pthread_mutex_t) == FGI_GLIBC_MUTEX_SIZE, "size of pthread_mutex_t");
_Static_assert(offsetof(pthread_mutex_t, __data.__kind) == FGI_GLIBC_KIND_AT, "where the kind is");
_Static_assert(offsetof(pthread_mutex_t, __data.__owner) == FGI_GLIBC_OWNER_AT, "where the owner is");
_Static_assert(offsetof(pthread_mutex_t, __data.__count) == FGI_GLIBC_COUNT_AT, "where the count is");
_Static_assert(FGI_GLIBC_NORMAL == 0 && FGI_GLIBC_RECURSIVE == 1 && FGI_GLIBC_ERRORCHECK == 2 &&
		       FGI_GLIBC_ADAPTIVE == 3,
	       "how kinds are encoded");
_Static_assert(sizeof(pthread_cond_t) == 48, "size of pthread_cond_t");
_Static_assert(sizeof(pthread_rwlock_t) == 56, "size of pthread_rwlock_t");
_Static_assert(sizeof(sem_t) == 32 && _Alignof(sem_t) == sizeof(uint64_t), "size of sem_t");
_Static_assert(offsetof(pthread_rwlock_t, __data.__shared) == FGI_GLIBC_RWLOCK_SHARED_AT, "where sharing is told");
_Static_assert(offsetof(pthread_rwlock_t, __data.__flags) == FGI_GLIBC_RWLOCK_KIND_AT, "where the kind is");

#endif
