/* SPDX-License-Identifier: MIT */
/* A turn at a read-write lock is not lost (sync/rwlock.h, I2). A thread that was woken, but does not take the free
 * lock, passes its turn on to a writer that is parked. A node without a thread plays that writer. */
#include <sched.h>

#include "sync/handover.h"
#include "tests/check.h"

static struct fgi_rwlock l;
static struct fgi_parked writer;
/* Stays parked: while a writer is, the reader's clock, 20 ms, does not let it in. */
static struct fgi_parked next_writer;

/* As a release leaves it that wakes the only parked thread, before a writer comes that parks. */
static struct fgi_parked *wake_the_only_one(void)
{
	struct fgi_parked_list *list = fgi_parked_lock(&l);
	struct fgi_parked *woken = fgi_parked_next(list, &l, NULL);

	CHECK(woken != NULL, "nobody is parked");
	fgi_parked_remove(list, woken);
	writer = (struct fgi_parked){.object = &l, .writer = true, .reserved = true, .state = FGI_PARKED_ASLEEP};
	next_writer = writer;
	fgi_parked_add(list, &writer, false);
	fgi_parked_add(list, &next_writer, false);
	__atomic_store_n(&l.word, FGI_RW_PARKED | FGI_RW_RESERVED | FGI_RW_WOKEN, __ATOMIC_RELAXED);
	fgi_parked_unlock(list);
	return woken;
}

static void await_parked(void)
{
	struct fgi_parked *first = NULL;

	while (!first) {
		struct fgi_parked_list *list = fgi_parked_lock(&l);

		first = fgi_parked_next(list, &l, NULL);
		fgi_parked_unlock(list);
		sched_yield();
	}
}

static void leave_the_list(struct fgi_parked *p)
{
	struct fgi_parked_list *list = fgi_parked_lock(&l);

	fgi_parked_remove(list, p);
	fgi_parked_unlock(list);
}

static void *read_it(void *unused)
{
	(void)unused;
	CHECK(fgi_rwlock_read(&l, FGI_NEVER) == 0, "the lock was free");
	fgi_rwlock_unlock(&l);
	return NULL;
}

/* A reader that was woken is kept out of the free lock by the writer, and parks again. */
static void a_reader_parks_again(void)
{
	struct fgi_parked_list *list;
	pthread_t reader;

	l = (struct fgi_rwlock){.unbiased_until = FGI_RW_WRITERS_FIRST};
	CHECK(fgi_rwlock_write(&l, FGI_NEVER) == 0, "the lock was free");
	reader = check_thread(read_it, NULL);
	await_parked();
	fgi_intent_clear(fgi_rw_owner(&l));
	fgi_parked_tell(wake_the_only_one(), FGI_PARKED_RETRY);
	while (fgi_parked_state(&writer) == FGI_PARKED_ASLEEP)
		sched_yield();
	CHECK(fgi_parked_state(&writer) == FGI_PARKED_RETRY, "state %d", fgi_parked_state(&writer));
	list = fgi_parked_lock(&l); /* the writer has come and gone */
	CHECK(__atomic_load_n(&l.word, __ATOMIC_RELAXED) == (FGI_RW_PARKED | FGI_RW_RESERVED | FGI_RW_WOKEN), "%lx",
	      l.word);
	fgi_parked_remove(list, &next_writer);
	__atomic_store_n(&l.word, FGI_RW_PARKED | 1, __ATOMIC_RELAXED);
	fgi_parked_unlock(list);
	fgi_rwlock_write_unlock_slow(&l);
	check_join(reader);
}

/* A woken thread gives up: the parked writer is let in, unless the lock is held or another woken thread is coming. */
static void a_writer_is_let_in(void)
{
	const struct {
		uint64_t word;
		bool is_told;
	} cases[] = {
		{FGI_RW_PARKED | FGI_RW_RESERVED, true},
		{FGI_RW_PARKED | FGI_RW_RESERVED | FGI_RW_WOKEN, false},
		{FGI_RW_PARKED | FGI_RW_RESERVED | 2 * FGI_RW_READER, false},
		{FGI_RW_PARKED | FGI_RW_RESERVED | 4711, false},
		{FGI_RW_PARKED | FGI_RW_RESERVED | FGI_RW_ENTRIES, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		enum fgi_parked_state state = FGI_PARKED_AWAKE;
		struct fgi_parked_list *list = fgi_parked_lock(&l);
		struct fgi_parked *told;

		writer =
			(struct fgi_parked){.object = &l, .writer = true, .reserved = true, .state = FGI_PARKED_ASLEEP};
		fgi_parked_add(list, &writer, false);
		l.word = cases[i].word;
		told = fgi_rw_let_in(&l, list, &state);
		fgi_parked_unlock(list);
		CHECK(told == (cases[i].is_told ? &writer : NULL), "case %zu", i);
		CHECK(l.word == (cases[i].word | (told ? FGI_RW_WOKEN : 0)), "case %zu: %lx", i, l.word);
		if (told)
			CHECK(state == FGI_PARKED_RETRY, "case %zu: state %d", i, state);
		else
			leave_the_list(&writer);
	}
}

int main(void)
{
	check_watchdog(500);
	a_writer_is_let_in();
	a_reader_parks_again();
	return 0;
}
