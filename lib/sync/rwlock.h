/* SPDX-License-Identifier: MIT */
/* A read-write lock that spins while critical sections run and parks while one of them is preempted.
 *
 *   word               meaning
 *   0                  free
 *   tid                held by a writer; bits 26 to 28 are 0 then
 *   n * READER         held by n readers that are counted here
 *   tid + n * READER   held by a writer; n threads found that out by counting themselves, and take that back, perhaps
 *                      after the writer has gone
 *   ... | ENTRIES      more readers may stand in the table (sync/readers.h); no writer may take the lock
 *   ... | BIASED       and further readers may enter there
 *   ... | PARKED       a thread may be parked (sync/parked.h): the release has to look
 *   ... | WOKEN        a parked thread was woken and has not tried yet: the release need not wake another
 *   ... | RESERVED     a parked thread has waited for FGI_RW_RESERVE_NS: readers are kept out, and the release hands
 *                      the lock over. Of a lock that prefers writers: a writer is parked, or woken and on its way
 *   ... | AWAITED      a writer is awake and waits for readers that overlap. A hint
 *
 * Waiting: a thread stays awake for a while as at the switching condition variable (sync/awake.h), then it parks.
 * A writer that is awake and sees several readers would wait until by chance none is there. So it keeps those that come
 * (AWAITED) out, for as long as they stay awake at most.
 *
 * I1  The word and the table alone decide. A writer takes the lock only where ENTRIES is not set; only a thread that
 *     has found the table without readers, with BIASED taken away before, clears it.
 * I2  PARKED is set, and the lock seen to be taken, with the list locked. A release that sees PARKED looks into the
 *     list, unless WOKEN says that a thread is on its way. That thread clears WOKEN when it takes the lock, parks
 *     again, or gives up; then it wakes the next if the lock is free.
 * I4  RESERVED. After a writer the readers that wait come first, all together, and after readers a writer. A lock of
 *     the kind that prefers writers is reserved as soon as a writer parks, and handed over as others are. A hand-over
 *     that takes long, since the new owner has to wait for a CPU, is followed by nine times as long without one.
 *     A thread that already reads some lock is not kept out by RESERVED: it may hold this one, and the writer would
 *     wait for it. Other threads that read may wait for a thread that is kept out. So a writer that finds the lock read
 *     for 10 ms more lets all readers pass that wait, then for 20 ms, and so on.
 * I5  A writer by published intent (runtime/thread.h), exactly; a reader by hand: held, after it was counted.
 * A release touches the lock for the last time when it gives it up. A reader that leaves beside others subtracts
 * itself, so that no other access makes it try again. If it was the last after all, and PARKED was set, it comes back
 * to wake the next: only if a thread that waits for a read-write lock is in the list, for then the lock exists. While
 * RESERVED is set, readers exchange the word, so that the last hands the lock over before another thread can take it.
 * RESERVED may be set between a reader's look and its subtraction. If that reader is the last one, a thread may take
 * the lock first, for one section: its release sees RESERVED, and hands over. */
#ifndef FGI_SYNC_RWLOCK_H
#define FGI_SYNC_RWLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "runtime/cancel.h"
#include "runtime/thread.h"
#include "sync/readers.h"

struct fgi_rwlock {
	union {
		uint64_t word;
		uint32_t halves[2]; /* the monitor reads the one with the tid */
	};
	/* Times (sync/handover.h): what ended the bias, or handed the lock over, has cost so much that it pays no
	 * earlier. FGI_RW_WRITERS_FIRST instead of the first: the kind that prefers writers; constant. Such a lock has
	 * no bias. */
	uint32_t unbiased_until, unreserved_until;
};

#define FGI_RW_OWNER 0x03ffffffull
#define FGI_RW_BIASED 0x04000000ull
#define FGI_RW_ENTRIES 0x08000000ull
#define FGI_RW_WOKEN 0x20000000ull
#define FGI_RW_RESERVED 0x40000000ull
#define FGI_RW_PARKED 0x80000000ull
#define FGI_RW_AWAITED 0x100000000ull
#define FGI_RW_READER 0x200000000ull
#define FGI_RW_READERS 0xfffffffe00000000ull
#define FGI_RW_FULL 0x8000000000000000ull /* too many readers */
#define FGI_RW_HELD (FGI_RW_OWNER | FGI_RW_READERS)
_Static_assert((FG_OWNER_MASK & FGI_RW_OWNER) == FGI_RW_OWNER, "a writer's tid is the owner");
_Static_assert(!(FG_OWNER_MASK & (FGI_RW_WOKEN | FGI_RW_RESERVED | FGI_RW_PARKED)), "flags beside a writer");

#define FGI_RW_WRITERS_FIRST 1u

static inline bool fgi_rw_writers_first(const struct fgi_rwlock *l)
{
	return fg_load_relaxed(&l->unbiased_until) == FGI_RW_WRITERS_FIRST;
}

static inline uint32_t *fgi_rw_owner(struct fgi_rwlock *l)
{
	return &l->halves[__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__];
}

int fgi_rwlock_read_slow(struct fgi_rwlock *l, struct fgi_deadline until);
int fgi_rwlock_write_slow(struct fgi_rwlock *l, struct fgi_deadline until);
void fgi_rwlock_read_unlock_slow(struct fgi_rwlock *l, bool counted); /* in `held`, which has been lowered */
void fgi_rwlock_write_unlock_slow(struct fgi_rwlock *l);
void fgi_rwlock_write_unlock_foreign(struct fgi_rwlock *l);
void fgi_rwlock_crowded(struct fgi_rwlock *l); /* a reader has met others at the word, and is counted there */
void fgi_rw_left(struct fgi_rwlock *l);        /* the last reader has left, and PARKED was set */

static inline bool fgi_rw_written(uint64_t word)
{
	return word & FGI_RW_OWNER;
}

/* Nobody but the calling thread, which reads, holds the lock. */
static inline bool fgi_rw_last(uint64_t word)
{
	return (word & FGI_RW_HELD) == FGI_RW_READER;
}

/* Of a release: is a parked thread to be woken, or the lock to be handed over? */
static inline bool fgi_rw_wakes(uint64_t word)
{
	return (word & FGI_RW_PARKED) && (!(word & FGI_RW_WOKEN) || (word & FGI_RW_RESERVED));
}

/* May a reader that leaves subtract itself? An asynchronous cancellation could end the last one before it wakes the
 * next. */
static inline bool fgi_rw_subtracts(uint64_t word)
{
	return !fgi_rw_last(word) && !(word & (FGI_RW_ENTRIES | FGI_RW_RESERVED)) && fg_likely(!fgi_async);
}

static inline void fgi_rwlock_reads(void)
{
	fgi_held_raise();
	fgi_reading++;
}

/* Takes the lock by entering the table. False, without the lock, if the entry is in use or the lock is no longer
 * biased. The thread is counted first: where a signal handler forks in between, the child keeps the entry. */
static inline bool fgi_rwlock_read_biased(struct fgi_rwlock *l)
{
	uint64_t *entry = fgi_readers_entry(l);

	fgi_reading++;
	if (fg_likely(fgi_readers_enter(entry, l))) {
		if (fg_likely(fg_load_seq_cst(&l->word) & FGI_RW_BIASED)) {
			fgi_held_raise();
			return true;
		}
		/* If another reader has given up this entry, its own count is ours. */
		if (!fgi_readers_leave(entry, l))
			fgi_rwlock_read_unlock_slow(l, false);
	}
	fgi_reading--;
	return false;
}

/* Makes the calling thread a reader, unless the word, which was `seen`, has become `closed`. Then the thread takes its
 * count back as it would unlock: by now the lock may be free, and a thread parked that saw it taken. */
static inline bool fgi_rwlock_join(struct fgi_rwlock *l, uint64_t seen, uint64_t closed)
{
	uint64_t found = fg_fetch_add_acquire(&l->word, FGI_RW_READER); /* pairs with the release of a writer */

	if (fg_likely(!(found & closed))) {
		fgi_rwlock_reads();
		if (fg_unlikely(found != seen))
			fgi_rwlock_crowded(l);
		return true;
	}
	fgi_rwlock_read_unlock_slow(l, false);
	return false;
}

/* All below return 0 with the lock. read and write: ETIMEDOUT; EDEADLK if this thread is the writer; EAGAIN if there
 * are too many readers. */
static inline int fgi_rwlock_read(struct fgi_rwlock *l, struct fgi_deadline until)
{
	const uint64_t closed = FGI_RW_OWNER | FGI_RW_RESERVED | FGI_RW_FULL;
	uint64_t word = fg_load_relaxed(&l->word);

	if (fg_likely(!(word & (closed | FGI_RW_BIASED | FGI_RW_AWAITED))) &&
	    fg_likely(fgi_rwlock_join(l, word, closed)))
		return 0;
	return fgi_rwlock_read_slow(l, until);
}

static inline int fgi_rwlock_write(struct fgi_rwlock *l, struct fgi_deadline until)
{
	uint32_t self = fgi_self();

	fgi_intent_set(fgi_rw_owner(l));
	if (fg_likely(fg_cas_acquire(&l->word, 0, self) == 0)) /* pairs with the releases */
		return 0;
	fgi_intent_clear(fgi_rw_owner(l));
	return fgi_rwlock_write_slow(l, until);
}

int fgi_rwlock_try_read(struct fgi_rwlock *l);
int fgi_rwlock_try_write(struct fgi_rwlock *l);

/* One of several readers leaves. release: pairs with the acquire of the next writer */
static inline void fgi_rwlock_read_leave(struct fgi_rwlock *l)
{
	uint64_t found = fg_fetch_sub_release(&l->word, FGI_RW_READER);

	if (fg_unlikely(fgi_rw_last(found)) && fgi_rw_wakes(found))
		fgi_rw_left(l);
}

static inline void fgi_rwlock_read_unlock(struct fgi_rwlock *l, uint64_t word)
{
	bool counted = fgi_reading > 0; /* otherwise another thread has taken it, or none */

	if (fg_likely(counted)) {
		fgi_reading--;
		fgi_held_lower();
	}
	/* release: as above */
	if (fg_likely(word == FGI_RW_READER) && fg_likely(fg_cas_release(&l->word, word, 0) == word))
		return;
	if ((word & FGI_RW_READERS) && fgi_rw_subtracts(word))
		fgi_rwlock_read_leave(l);
	else
		fgi_rwlock_read_unlock_slow(l, counted);
}

static inline void fgi_rwlock_unlock(struct fgi_rwlock *l)
{
	uint64_t word = fg_load_relaxed(&l->word);
	uint32_t self = fgi_self();

	if (!fgi_rw_written(word)) {
		fgi_rwlock_read_unlock(l, word);
		return;
	}
	if (fg_unlikely((word & FG_OWNER_MASK) != self)) {
		fgi_rwlock_write_unlock_foreign(l);
		return;
	}
	fgi_intent_restore(fgi_rw_owner(l));
	if (fg_unlikely(fg_cas_release(&l->word, self, 0) != self))
		fgi_rwlock_write_unlock_slow(l);
	fgi_intent_clear(fgi_rw_owner(l));
}

#endif
