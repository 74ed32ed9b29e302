/* SPDX-License-Identifier: MIT */
/* What is the same of all objects that a thread acquires and gives back: counted, timed, and passed on to the next
 * definition of the function, which is a lock's interposer or glibc. */
#ifndef FGP_ACQUIRE_H
#define FGP_ACQUIRE_H

#include <errno.h>
#include <pthread.h>

#include "profile/record.h"

#define EXPORT __attribute__((visibility("default")))
#define FRAME __builtin_frame_address(0)

enum { LOCK, TRYLOCK, TIMEDLOCK, CLOCKLOCK };

struct fgp_call;

/* The functions of a kind of lock. `kind` is of abi/flexguard_profile.h. */
struct fgp_kind {
	uint32_t kind;
	int (*try)(void *lock);
	int (*wait)(void *lock, const struct fgp_call *call);
	/* Whether this thread may hold the lock several times. */
	bool (*nests)(const void *lock);
};

/* A call that acquires: how it waits, and who called. */
struct fgp_call {
	const struct fgp_kind *of;
	int how;
	clockid_t clock;
	const struct timespec *until;
	const void *frame;
};

static inline bool fgp_is_acquired(int result)
{
	return result == 0 || result == EOWNERDEAD;
}

struct fg_profile_counts *fgp_counts_of(const void *object, uint32_t kind);

/* A hold of which `timed` says when it began. */
void fgp_remember(const struct fgp_timed *timed);
/* The hold ends before its unlock, if it was timed. */
void fgp_hold_ends(const void *lock);
/* The memory of a lock may be freed as soon as it is unlocked, so it is not touched after that. */
int fgp_unlock_timed(void *lock, int (*unlock)(void *));

int fgp_acquire_slow(void *lock, const struct fgp_call *call, struct fg_profile_counts *counts);
int fgp_acquire_contended(void *lock, const struct fgp_call *call, struct fg_profile_counts *counts, int result);
int fgp_acquire_first(void *lock, const struct fgp_call *call);

static inline __attribute__((always_inline)) int fgp_acquire(void *lock, const struct fgp_call *call)
{
	struct fg_profile_counts *counts = fgp_counts((uintptr_t)lock);
	int result;

	if (fg_unlikely(!counts))
		return fgp_acquire_first(lock, call);
	if (fg_unlikely(!counts->until_hold || fgp_thread.timed))
		return fgp_acquire_slow(lock, call, counts);
	result = call->of->try(lock);
	if (fg_unlikely(result != 0))
		return fgp_acquire_contended(lock, call, counts, result);
	counts->acquisitions++;
	counts->until_hold--;
	return 0;
}

/* A wait that no hold follows: of a barrier, of a semaphore, for a condition. `timed` says what was timed. */
struct fg_profile_counts *fgp_wait_begins(const void *object, uint32_t kind, const void *frame,
					  struct fgp_timed *timed);
void fgp_wait_ends(struct fg_profile_counts *counts, struct fgp_timed *timed);

#endif
