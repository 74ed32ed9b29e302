/* SPDX-License-Identifier: MIT */
/* Who gets a read-write lock next (sync/rwlock.h): what a release does where threads are parked. */
#ifndef FGI_SYNC_HANDOVER_H
#define FGI_SYNC_HANDOVER_H

#include "sync/parked.h"
#include "sync/rwlock.h"

/* So long a parked thread competes with those that come. Then the lock is handed over, to one writer or all readers,
 * and the others wait as long again, or as HANDED_TIMES says: between two hand-overs the threads that run use the
 * lock. */
#define FGI_RW_RESERVE_NS 20000000u

/* Times that a lock keeps, in ticks of 4 us, of which the last bit is 0. One that lies further ahead than any rest
 * lasts is one of hours ago. */
static inline uint32_t fgi_rw_ticks(uint64_t ns)
{
	return (uint32_t)(ns >> 12) & ~FGI_RW_WRITERS_FIRST;
}

#define FGI_RW_LONGEST_REST_NS (1u << 30)

static inline bool fgi_rw_rests(const uint32_t *until, uint64_t now_ns)
{
	uint32_t left = fg_load_relaxed(until) - fgi_rw_ticks(now_ns);

	return left - 1 < fgi_rw_ticks(FGI_RW_LONGEST_REST_NS);
}

static inline void fgi_rw_rest(uint32_t *until, uint64_t now_ns, uint64_t for_ns)
{
	uint64_t most = for_ns < FGI_RW_LONGEST_REST_NS ? for_ns : FGI_RW_LONGEST_REST_NS;

	fg_store_relaxed(until, fgi_rw_ticks(now_ns + most));
}

static inline bool fgi_rw_readable(uint64_t word, bool even_if_reserved)
{
	return !fgi_rw_written(word) && (even_if_reserved || !(word & FGI_RW_RESERVED));
}

static inline bool fgi_rw_writable(uint64_t word)
{
	return !(word & (FGI_RW_HELD | FGI_RW_BIASED | FGI_RW_ENTRIES));
}

/* Gives up the lock of a writer, or of one reader, where threads may be parked. release: pairs with the acquires of
 * a thread that takes the word or is told. */
void fgi_rw_release(struct fgi_rwlock *l, uint64_t held);

/* Readers need no longer be kept out, or a thread that was woken does not take the free lock. With the list locked;
 * returns those who are to be told *state. */
struct fgi_parked *fgi_rw_let_in(struct fgi_rwlock *l, struct fgi_parked_list *list, enum fgi_parked_state *state);

/* With the list locked: makes the flags agree with it. */
void fgi_rw_set_flags(struct fgi_rwlock *l, const struct fgi_parked_list *list);

/* Tells each of a chain. The list is not locked. */
void fgi_rw_tell(struct fgi_parked *chain, enum fgi_parked_state state);

/* A call ends with `result`, and with the lock if that is 0: acts on a cancellation that came meanwhile, without it. */
void fgi_rw_resume(struct fgi_rwlock *l, bool suspended, int result);

/* May readers enter the table? Not soon after a writer; and not where an entry is of an earlier lock at this address,
 * whose reader has ended: a writer would wait for it. */
bool fgi_rw_may_bias(struct fgi_rwlock *l, uint64_t word);

/* Ends the bias. Returns NULL if no reader stands in the table: then ENTRIES is cleared, too; otherwise an entry. The
 * list's lock keeps others from doing the same, so BIASED, once it is seen to be clear, was clear during the search. */
uint64_t *fgi_rw_end_bias(struct fgi_rwlock *l);

#endif
