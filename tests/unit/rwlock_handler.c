/* SPDX-License-Identifier: MIT */
/* A signal handler uses a read-write lock while its thread, which is about to wait for it, has the bucket locked
 * (sync/parked.h, P7). What the handler must not do there, it does afterwards. */
#include <errno.h>

#include "tests/unit/steps.h"

#include "sync/handover.h"

static void add_and_step(struct fgi_parked_list *list, struct fgi_parked *p, bool first);
static struct fgi_parked_list *lock_outside(const void *object);

#define fgi_parked_add add_and_step
#define fgi_parked_lock lock_outside
#include "sync/handover.c"
#include "sync/rwlock.c"
#undef fgi_parked_add
#undef fgi_parked_lock
#include "tests/check.h"
#include "tests/unit/rwlock_word.h"

static struct fgi_rwlock l;
static void (*before_add)(void);

/* The thread has set PARKED, and is not in the list yet. */
static void add_and_step(struct fgi_parked_list *list, struct fgi_parked *p, bool first)
{
	before_add();
	before_add = NULL;
	fgi_parked_add(list, p, first);
}

/* It would wait for itself. */
static struct fgi_parked_list *lock_outside(const void *object)
{
	CHECK(!fgi_parked_is_inside(), "a handler locks a bucket");
	return fgi_parked_lock(object);
}

static void the_reader_leaves(void)
{
	l.word -= READ(1);
}

static void reads_last(void)
{
	CHECK_IS(fgi_rwlock_try_read(&l), 0);
	the_reader_leaves();
	fgi_rwlock_unlock(&l);
}

static void subtracts_itself_last(void)
{
	CHECK_IS(fgi_rwlock_try_read(&l), 0);
	watched = &l.word;
	other = the_reader_leaves;
	fgi_rwlock_unlock(&l);
}

static void writes(void)
{
	the_reader_leaves();
	CHECK_IS(fgi_rwlock_try_write(&l), 0);
	fgi_rwlock_unlock(&l);
}

/* More than the thread keeps, at other locks. */
static void reads_last_of_many(void)
{
	static struct fgi_rwlock others[16];

	for (int i = 0; i < 16; i++)
		fgi_rw_left(&others[i]);
	reads_last();
}

/* The lock becomes free after the thread has seen it taken. */
static void its_thread_is_told(void (*handler)(void))
{
	struct wait w = wait_at(&l, true, FGI_NEVER);

	l = (struct fgi_rwlock){.word = READ(1)};
	w.node.since_ns = UINT64_MAX; /* not due */
	before_add = handler;
	CHECK(enter_list(&w), "the lock is taken");
	CHECK(!before_add && !other, "no such step");
	CHECK_IS(w.node.state, FGI_PARKED_RETRY);
	CHECK(l.word == K, "%lx", l.word);
	CHECK_IS(fg_thread.held, 0);
}

static void cannot_write_beside_a_table(void)
{
	struct fgi_parked_list *list = fgi_parked_lock(&l);

	l = (struct fgi_rwlock){.word = E};
	CHECK_IS(fgi_rwlock_try_write(&l), EBUSY);
	fgi_parked_unlock(list);
	CHECK_IS(fgi_rwlock_try_write(&l), 0);
	fgi_rwlock_unlock(&l);
}

int main(void)
{
	check_watchdog(500);
	its_thread_is_told(reads_last);
	its_thread_is_told(subtracts_itself_last);
	its_thread_is_told(writes);
	its_thread_is_told(reads_last_of_many);
	cannot_write_beside_a_table();
	return 0;
}
