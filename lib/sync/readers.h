/* SPDX-License-Identifier: MIT */
/* Readers that stand in a table instead of the lock's word, so that readers on different CPUs write to different cache
 * lines: the biased lock of "BRAVO: Biased Locking for Reader-Writer Locks" (Dice, Kogan; USENIX ATC 2019). A reader's
 * entry holds the address of the lock. A writer that must know all readers looks at the entries that the lock can have,
 * one in each row.
 *
 * A thread uses the row of its tid. Entries are anonymous: a thread that finds its entry taken counts itself in the
 * word instead, and of two readers of one lock each may give up the entry of the other. */
#ifndef FGI_SYNC_READERS_H
#define FGI_SYNC_READERS_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "runtime/deadline.h"
#include "runtime/hash.h"
#include "runtime/thread.h"

#define FGI_READER_ROWS 128 /* 8 KiB. More threads than that share entries */
#define FGI_READERS_BITS 3
#define FGI_READERS_A_ROW (1u << FGI_READERS_BITS)

/* For how many read locks this thread has entered, in the table or elsewhere. */
extern __thread int32_t fgi_reading __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Not 0 once a lock has let readers in here. */
extern uint32_t fgi_readers_used __attribute__((visibility("hidden")));

/* 0: free; otherwise the lock's address, with bit 0 set if a writer sleeps until the entry is free. */
extern uint64_t fgi_readers[FGI_READER_ROWS][FGI_READERS_A_ROW] __attribute__((visibility("hidden")));

static inline uint64_t fgi_readers_column(const void *lock)
{
	return fgi_hash_of(lock, FGI_READERS_BITS);
}

static inline uint64_t *fgi_readers_entry(const void *lock)
{
	return &fgi_readers[fgi_self() % FGI_READER_ROWS][fgi_readers_column(lock)];
}

/* seq_cst: the reader enters, then looks whether the lock is still biased; the writer ends the bias, then looks for
 * readers. One of them sees the other. */
static inline bool fgi_readers_enter(uint64_t *entry, const void *lock)
{
	return fg_load_relaxed(entry) == 0 && fg_cas_seq_cst(entry, 0, (uint64_t)(uintptr_t)lock) == 0;
}

void fgi_readers_wake(uint64_t *entry);

/* Returns false if the entry is not the lock's. release: pairs with the writer's load in fgi_readers_find. Afterwards
 * the lock is not touched: it may be gone. */
static inline bool fgi_readers_leave(uint64_t *entry, const void *lock)
{
	uint64_t found = (uint64_t)(uintptr_t)lock, seen;

	while ((seen = fg_cas_release(entry, found, 0)) != found) {
		if ((seen & ~(uint64_t)1) != (uint64_t)(uintptr_t)lock)
			return false;
		found = seen;
	}
	if (fg_unlikely(found & 1))
		fgi_readers_wake(entry);
	return true;
}

/* An entry of the lock, or NULL. */
uint64_t *fgi_readers_find(const void *lock);

/* Is the entry no longer the lock's? relaxed: the search that follows acquires. */
static inline bool fgi_readers_left(const uint64_t *entry, const void *lock)
{
	return (fg_load_relaxed(entry) & ~(uint64_t)1) != (uint64_t)(uintptr_t)lock;
}

/* Sleeps until the entry is no longer the lock's, until the deadline, or for no reason. */
void fgi_readers_sleep(uint64_t *entry, const void *lock, struct fgi_deadline until);

/* A new lock begins at the address: the entries there are of a lock that no longer exists, and of threads that have
 * ended as its readers. Returns their number. */
uint32_t fgi_readers_forget_slow(const void *lock);

static inline uint32_t fgi_readers_forget(const void *lock)
{
	/* relaxed: a reader in the table has seen the word that a thread released after it had stored 1
	 * (fgi_rwlock_crowded) */
	return fg_unlikely(fg_load_relaxed(&fgi_readers_used)) ? fgi_readers_forget_slow(lock) : 0;
}

/* In the thread that forks, and in the child, where no other reader exists. Its own entries go to the row of its new
 * tid. A thread that reads may carry entries of others along: of those that shared its row. */
void fgi_readers_before_fork(void);
void fgi_readers_after_fork(void);

#endif
