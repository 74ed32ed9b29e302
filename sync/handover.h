/* SPDX-License-Identifier: MIT */
/* Who gets a read-write lock next (sync/rwlock.h): what a release does where threads are parked. */
#ifndef FGI_SYNC_HANDOVER_H
#define FGI_SYNC_HANDOVER_H

#include "sync/parked.h"
#include "sync/rwlock.h"

/* So long a parked thread competes with those that come. 1 and 5 ms cost 32 threads up to five sixths of their reads:
 * then it is reserved nearly always, and each hand-over waits for a thread to wake. */
#define FGI_RW_RESERVE_NS 20000000u

static inline bool fgi_rw_readable(uint32_t word, bool even_if_reserved)
{
	return !fgi_rw_written(word) && (even_if_reserved || !(word & FGI_RW_RESERVED));
}

static inline bool fgi_rw_writable(uint32_t word)
{
	return !(word & (FGI_RW_COUNT | FGI_RW_READ | FGI_RW_BIASED | FGI_RW_ENTRIES | FGI_RW_RESERVED));
}

/* Gives up the lock of a writer, or of one reader, where threads may be parked. release: pairs with the acquires of
 * a thread that takes the word or is told. */
void fgi_rw_release(struct fgi_rwlock *l, bool after_writer);

/* Readers need no longer be kept out, or a thread that was woken does not take the free lock. With the list locked;
 * returns those who are to be told *state. */
struct fgi_parked *fgi_rw_let_in(struct fgi_rwlock *l, struct fgi_parked_list *list, enum fgi_parked_state *state);

/* With the list locked: makes the flags agree with it. */
void fgi_rw_set_flags(struct fgi_rwlock *l, const struct fgi_parked_list *list);

/* Tells each of a chain. The list is not locked. */
void fgi_rw_tell(struct fgi_parked *chain, enum fgi_parked_state state);

#endif
