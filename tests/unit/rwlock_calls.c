/* SPDX-License-Identifier: MIT */
/* What a call does with each word of a read-write lock that it can decide at once (sync/rwlock.h): a table. The
 * deadline of those that would wait has passed. */
#include <errno.h>

#include "runtime/clock.h"
#include "sync/handover.h"
#include "tests/check.h"
#include "tests/unit/rwlock_word.h"

#define MOST (FGI_RW_FULL / FGI_RW_READER)

static struct fgi_rwlock l;
static const struct timespec past = {0, 0};

static int read_late(struct fgi_rwlock *lock)
{
	return fgi_rwlock_read(lock, FGI_DEADLINE(CLOCK_REALTIME, &past));
}

static int write_late(struct fgi_rwlock *lock)
{
	return fgi_rwlock_write(lock, FGI_DEADLINE(CLOCK_REALTIME, &past));
}

/* A reader that has met another at the word. */
static int read_crowded(struct fgi_rwlock *lock)
{
	int result = read_late(lock);

	if (result == 0)
		fgi_rwlock_crowded(lock);
	return result;
}

enum more {
	NOTHING = 0,
	WRITERS_FIRST = 1,
	READING = 2,  /* the thread reads another lock */
	IN_USE = 4,   /* its entry in the table is another lock's */
	STALE = 8,    /* its entry is of this lock */
	RESTS = 16,   /* the bias does */
	BY_SELF = 32, /* the word before has this thread's tid */
	TO_SELF = 64, /* and so has the one after */
	ENTERS = 128, /* in the table */
	USED = 256,   /* the table is, by other locks */
};

static const struct {
	int (*call)(struct fgi_rwlock *);
	uint64_t word;
	int more;
	int result;
	uint64_t next;
} calls[] = {
	{read_late, 0, NOTHING, 0, READ(1)},
	{read_late, READ(1), NOTHING, 0, READ(2)},
	{read_late, READ(1) | P | K, NOTHING, 0, READ(2) | P | K},
	{read_late, OTHER | READ(1), NOTHING, ETIMEDOUT, OTHER | READ(1)},
	{read_late, READ(2) | A, READING, 0, READ(3) | A},
	{read_late, READ(2) | A, NOTHING, 0, READ(3)}, /* no writer is awake */
	{read_late, OTHER, NOTHING, ETIMEDOUT, OTHER},
	{read_late, 0, BY_SELF | TO_SELF, EDEADLK, 0},
	{read_late, READ(1) | P | R, NOTHING, ETIMEDOUT, READ(1) | P | R},
	{read_late, READ(1) | P | R, READING, 0, READ(2) | P | R},
	{read_late, READ(1) | P | R, READING | WRITERS_FIRST, ETIMEDOUT, READ(1) | P | R},
	{read_late, READ(MOST), NOTHING, EAGAIN, READ(MOST)},
	{read_late, B | E, ENTERS, 0, B | E},
	{read_late, READ(1) | B | E, ENTERS, 0, READ(1) | B | E},
	{read_late, B | E, IN_USE, 0, READ(1) | B | E},
	{read_late, E, NOTHING, 0, READ(1) | E},
	{read_crowded, 0, NOTHING, 0, READ(1) | B | E},
	{read_crowded, READ(3), NOTHING, 0, READ(4) | B | E},
	{read_crowded, 0, USED, 0, READ(1) | B | E},
	{read_crowded, READ(1), WRITERS_FIRST, 0, READ(2)},
	{read_crowded, READ(1) | P, NOTHING, 0, READ(2) | P},
	{read_crowded, K, NOTHING, 0, READ(1) | K},
	{read_crowded, READ(1), RESTS, 0, READ(2)},
	{read_crowded, READ(1), STALE, 0, READ(2)},
	{read_crowded, READ(1) | E, STALE, 0, READ(2) | B | E},
	{read_crowded, READ(MOST), NOTHING, EAGAIN, READ(MOST)},
	{fgi_rwlock_try_read, READ(1) | P | R, NOTHING, 0, READ(2) | P | R},
	{fgi_rwlock_try_read, READ(1) | P | R, WRITERS_FIRST, EBUSY, READ(1) | P | R},
	{fgi_rwlock_try_read, READ(1), WRITERS_FIRST, 0, READ(2)},
	{fgi_rwlock_try_read, OTHER, NOTHING, EBUSY, OTHER},
	{fgi_rwlock_try_read, READ(MOST), NOTHING, EAGAIN, READ(MOST)},
	{fgi_rwlock_try_read, B | E, ENTERS, 0, B | E},
	{fgi_rwlock_try_read, B | E, IN_USE, 0, READ(1) | B | E},
	{write_late, 0, TO_SELF, 0, 0},
	{write_late, P | R, TO_SELF, 0, P | R},
	{write_late, READ(1), NOTHING, ETIMEDOUT, READ(1)},
	{write_late, OTHER | P | K, NOTHING, ETIMEDOUT, OTHER | P | K},
	{write_late, P, BY_SELF | TO_SELF, EDEADLK, P},
	{write_late, OTHER | READ(1), NOTHING, ETIMEDOUT, OTHER | READ(1)},
	{write_late, A, TO_SELF, 0, 0},
	{write_late, B | E, TO_SELF, 0, 0},
	{write_late, READ(1) | B | E, NOTHING, ETIMEDOUT, READ(1)},
	{write_late, B | E, STALE, ETIMEDOUT, E},
	{fgi_rwlock_try_write, P | R | K, TO_SELF, 0, P | R | K},
	{fgi_rwlock_try_write, READ(1), NOTHING, EBUSY, READ(1)},
	{fgi_rwlock_try_write, OTHER, NOTHING, EBUSY, OTHER},
	{fgi_rwlock_try_write, 0, BY_SELF | TO_SELF, EBUSY, 0},
	{fgi_rwlock_try_write, B | E, TO_SELF, 0, 0},
	{fgi_rwlock_try_write, B | E, STALE, EBUSY, E},
	{fgi_rwlock_try_write, READ(1) | B | E, NOTHING, EBUSY, READ(1) | B | E}, /* they need not come back */
};

/* What the call has told the monitor, and where it has entered. */
static void look(size_t i, int result)
{
	bool taken = result == 0, writes = calls[i].call == write_late || calls[i].call == fgi_rwlock_try_write;
	uint64_t next = calls[i].next + (calls[i].more & TO_SELF ? fgi_self() : 0);

	CHECK(result == calls[i].result, "call %zu: %d, not %d", i, result, calls[i].result);
	CHECK(l.word == next, "call %zu: %lx, not %lx", i, l.word, next);
	CHECK(fg_thread.held == (taken && !writes), "call %zu: %d", i, fg_thread.held);
	CHECK(fg_thread.pending == (taken && writes ? (uint64_t)(uintptr_t)&l.word : 0), "call %zu", i);
	CHECK(fgi_reading == (taken && !writes) + !!(calls[i].more & READING), "call %zu: %d", i, fgi_reading);
	CHECK((fgi_readers_find(&l) != NULL) == !!(calls[i].more & (ENTERS | STALE)), "call %zu", i);
	if (l.word & B)
		CHECK(fgi_readers_used, "call %zu", i);
}

static uint64_t now; /* CLOCK_MONOTONIC, before the call */

static void make(size_t i)
{
	int more = calls[i].more;

	now = fgi_now_ns(CLOCK_MONOTONIC);
	l = (struct fgi_rwlock){.word = calls[i].word, .unbiased_until = (more & WRITERS_FIRST) * FGI_RW_WRITERS_FIRST};
	if (more & BY_SELF)
		l.word += fgi_self();
	if (!(more & WRITERS_FIRST))
		fgi_rw_rest(&l.unbiased_until, now, more & RESTS ? 4ull * FGI_RW_LONGEST_REST_NS : 0);
	fgi_rw_rest(&l.unreserved_until, now, 0);
	fgi_reading = more & READING ? 1 : 0;
	fgi_readers_used = !!(more & (STALE | USED) || calls[i].word & E);
	if (more & STALE)
		CHECK(fgi_readers_enter(fgi_readers_entry(&l), &l), "the entry is free");
	if (more & IN_USE) /* by an address that no lock has */
		CHECK(fgi_readers_enter(fgi_readers_entry(&l), &calls), "the entry is free");
	look(i, calls[i].call(&l));
}

static void clean_up(size_t i)
{
	*fgi_readers_entry(&l) = 0;
	fg_thread.held = 0;
	fg_thread.pending = 0;
	if (calls[i].more & STALE && calls[i].call == read_crowded && !(calls[i].word & E)) /* it may be over by now */
		CHECK((int32_t)(l.unbiased_until - fgi_rw_ticks(now + FGI_RW_RESERVE_NS)) >= 0,
		      "it looks for entries each time");
}

/* In the child of a fork the entries of the row are the thread's if it reads; otherwise of threads of the parent. */
static void forks(bool reads)
{
	fgi_readers_used = 1;
	fgi_reading = reads;
	CHECK(fgi_readers_enter(fgi_readers_entry(&l), &l), "the entry is free");
	fgi_readers_before_fork();
	fgi_readers_after_fork();
	CHECK((fgi_readers_find(&l) != NULL) == reads, "%d", reads);
	fgi_readers_forget(&l);
}

int main(void)
{
	check_watchdog(500);
	forks(false);
	forks(true);
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		make(i);
		clean_up(i);
	}
	return 0;
}
