/* SPDX-License-Identifier: MIT */
/* What acquire.c sees and record.c stores. Nothing here allocates, waits for a lock, or changes errno. */
#ifndef FGP_RECORD_H
#define FGP_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/flexguard_profile.h"
#include "runtime/atomic.h"
#include "runtime/hash.h"

#define FGP_TIMED 8  /* timed locks that a thread remembers at once */
#define FGP_PROBES 8 /* entries of a thread's table that are looked at for a lock */
#define FGP_NONE UINT32_MAX

/* A lock that this thread holds and whose acquisition was timed. It is added to the sums after the unlock, outside the
 * critical section. */
struct fgp_timed {
	uintptr_t mutex;
	uint32_t lock;
	uint32_t site;        /* FGP_NONE: not stored */
	uint32_t wait_weight; /* 0: the wait was not timed */
	uint32_t hold_weight; /* 0: the hold is not timed */
	uint32_t again;       /* recursive: levels above the one that was timed */
	uint64_t wait_ns;
	uint64_t since_ns; /* when the lock was acquired */
};

struct fgp_thread {
	struct fg_profile_block *block; /* NULL: none yet, or none left */
	bool without;                   /* no block is to be had */
	bool busy;                      /* it is being set up: a signal handler does not begin again */
	uint32_t random;
	uint32_t timed;
	struct fgp_timed held[FGP_TIMED];
};
extern __thread struct fgp_thread fgp_thread;

/* Where a lock's counts are in a table: the address is a multiple of 8. */
static inline uint32_t fgp_hash(uintptr_t mutex)
{
	return (uint32_t)fgi_hash(mutex / 8, 32);
}

/* This thread's counts of a lock of that kind, made if need be; NULL: there is no profile, or a table is full. */
struct fg_profile_counts *fgp_counts_slow(uintptr_t mutex, uint32_t kind);

/* The same, of a lock that has counts; NULL: it may have none. */
static inline struct fg_profile_counts *fgp_counts(uintptr_t mutex)
{
	struct fg_profile_block *block = fgp_thread.block;
	uint32_t at = fgp_hash(mutex);

	if (fg_likely(block != NULL)) {
		for (uint32_t i = 0; i < FGP_PROBES; i++) {
			struct fg_profile_counts *counts = &block->counts[(at + i) % FG_PROFILE_COUNTS];

			if (fg_likely(counts->mutex == mutex))
				return counts;
		}
	}
	return NULL;
}

/* What a call did with a lock of which this thread has no counts. */
struct fgp_event {
	bool acquired, contended, failed, cond_wait;
};
void fgp_count_shared(uintptr_t mutex, uint32_t kind, struct fgp_event event);

/* The weight of the next hold, or of the next wait: 0 if it is not timed. */
uint32_t fgp_hold_weight(const struct fg_profile_counts *counts);
uint32_t fgp_wait_weight(const struct fg_profile_counts *counts);
/* To be called after each acquisition, and after each contended one. */
void fgp_hold_passed(struct fg_profile_counts *counts);
void fgp_wait_passed(struct fg_profile_counts *counts);

/* The call stack of the function whose frame is `frame`, as a site of `lock`. */
uint32_t fgp_site(uint32_t lock, const void *frame);
uint64_t fgp_now(void);
/* Adds what was timed; `until_ns` is when the hold ended. */
void fgp_commit(const struct fgp_timed *timed, uint64_t until_ns);
/* An acquisition of the site that no hold follows. */
void fgp_site_used(uint32_t site, uint32_t weight);

/* stack.c: the return addresses of the function with the frame `frame` and its callers; how many there are. Stores
 * each file that one of them is in among `modules`. fgp_note_file: so that of an address of data. */
void fgp_note_file(uintptr_t address, struct fg_profile_module *modules);
uint32_t fgp_stack(const void *frame, uint32_t pid, struct fg_profile_module *modules, uint64_t *stack);

extern struct fg_profile *fgp_profile;

#endif
