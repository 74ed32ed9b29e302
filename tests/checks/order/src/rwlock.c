/* SPDX-License-Identifier: MIT */
/* The read-write lock of lib/sync/ and the calls by which the model drives it. build.rs says which of its constants are
 * smaller here. A waiter looks once before it parks: the model tries what comes of every moment. */
#include "src/model.h"

#include <stdlib.h>

#include "runtime/cancel.h"
#include "runtime/cleanup.h"
#include "sync/awake.h"

/* Each test has a table of its own: the declarations in lib/sync/readers.h become those of functions. */
#define fgi_readers (*fgo_readers())
#define fgi_readers_used (*fgo_readers_used())

#include "sync/parked.h"

/* How many buckets each thread of the model has locked: build.rs. */
static uint32_t *fgo_inside(void)
{
	static __thread uint32_t inside_of[8], beyond;

	if (!fg_thread.self)
		for (uint32_t i = 0; i < 8; i++)
			inside_of[i] = 0;
	return fg_thread.self < 8 ? &inside_of[fg_thread.self] : &beyond;
}

#include "sync/parked.c"
#include "sync/readers.c"

void fgo_inside_none(void)
{
	uint32_t self = fg_thread.self;

	fg_thread.self = 0;
	fgo_inside();
	fg_thread.self = self;
	postponed = 0;
}

/* Threads share a node once it is in a list. */
static void fgo_parked_add(struct fgi_parked_list *list, struct fgi_parked *p, bool first)
{
	fgo_share(&p->next, sizeof(p->next));
	fgo_share(&p->prev, sizeof(p->prev));
	fgo_share(&p->sibling, sizeof(p->sibling));
	fgo_share(&p->lower, sizeof(p->lower));
	fgo_share(&p->higher, sizeof(p->higher));
	fgo_share(&p->list, sizeof(p->list));
	fgo_share(&p->object, sizeof(p->object));
	fgo_share(&p->number, sizeof(p->number));
	fgo_share(&p->since_ns, sizeof(p->since_ns));
	fgo_share(&p->told_ns, sizeof(p->told_ns));
	fgo_share(&p->self, sizeof(p->self));
	fgo_share(&p->state, sizeof(p->state));
	fgi_parked_add(list, p, first);
}

#define fgi_parked_add(list, p, first) fgo_parked_add(list, p, first)
#define _pthread_cleanup_push(buffer, run, argument) ((void)(buffer), (void)(run))
#define _pthread_cleanup_pop(buffer, execute) ((void)0)

#include "sync/handover.c"
#include "sync/rwlock.c"

__thread uint32_t fgi_async;

bool fgi_foreign_carried(uint32_t owner)
{
	(void)owner;
	return false;
}

void fgi_foreign_note(uint32_t owner, const uint32_t *word)
{
	(void)owner, (void)word;
}

void fgi_awake_begin(struct fgi_awake *a, const void *object)
{
	(void)object;
	*a = (struct fgi_awake){.begin_ns = fgi_now_ns(CLOCK_MONOTONIC)};
}

bool fgi_awake_stay(struct fgi_awake *a, bool (*ready)(const void *), const void *argument, struct fgi_deadline until)
{
	(void)a, (void)until;
	return ready(argument);
}

void fgi_awake_end(const struct fgi_awake *a, bool slept, uint64_t event_ns)
{
	(void)a, (void)slept, (void)event_ns;
}

/* ---- the objects ------------------------------------------------------------------------------------------------- */

struct fgo_rw {
	struct fgi_rwlock lock;
	uint32_t data; /* what the lock protects */
} __attribute__((aligned(FG_CACHE_LINE)));

/* More than tests, so that each finds one whose list no other uses. */
static struct fgo_rw objects[FGO_OBJECTS * 64];

static struct table {
	uint64_t readers[FGI_READER_ROWS][FGI_READERS_A_ROW];
	uint32_t used;
} __attribute__((aligned(FG_CACHE_LINE))) tables[FGO_OBJECTS];

/* For the thread of the system on which a model runs. */
static __thread struct table *table = &tables[0];

uint64_t (*fgo_readers())[FGI_READER_ROWS][FGI_READERS_A_ROW]
{
	return &table->readers;
}

uint32_t *fgo_readers_used()
{
	return &table->used;
}

int32_t *fgo_reading(void)
{
	return &fgi_reading;
}

/* The nth, new. */
struct fgo_rw *fgo_rw_new(uint32_t n, const struct fgo_setup *setup)
{
	struct fgo_rw *o = objects;

	while (fgi_hash_of(o, FGI_BUCKET_BITS) != n)
		if (++o == objects + sizeof(objects) / sizeof(objects[0]))
			abort();
	fgi_parked_lists[n] = (struct fgi_parked_list){0};
	fgi_bucket_owners[n] = (uintptr_t)o;
	fgo_inside_none();
	table = &tables[n];
	*table = (struct table){.used = setup->biased};
	*o = (struct fgo_rw){.lock = {.word = setup->biased ? FGI_RW_BIASED | FGI_RW_ENTRIES : 0,
				      .unbiased_until = setup->writers_first * FGI_RW_WRITERS_FIRST}};
	return o;
}

size_t fgo_rw_places(struct fgo_rw *o, struct fgo_place *places)
{
	struct fgi_parked_list *list = fgi_parked_list_of(o);
	size_t n = 0;

	places[n++] = (struct fgo_place){&o->lock.word, sizeof(o->lock.word)};
	places[n++] = (struct fgo_place){&o->lock.unbiased_until, sizeof(o->lock.unbiased_until)};
	places[n++] = (struct fgo_place){&o->lock.unreserved_until, sizeof(o->lock.unreserved_until)};
	places[n++] = (struct fgo_place){&o->data, sizeof(o->data)};
	places[n++] = (struct fgo_place){&list->word, sizeof(list->word)};
	places[n++] = (struct fgo_place){&list->queues, sizeof(list->queues)};
	places[n++] = (struct fgo_place){&table->used, sizeof(table->used)};
	for (uint32_t row = 0; row < FGI_READER_ROWS; row++) {
		uint64_t *entry = &table->readers[row][fgi_readers_column(o)];

		places[n++] = (struct fgo_place){entry, sizeof(*entry)};
	}
	return n;
}

/* ---- what a thread of the model may do -------------------------------------------------------------------------- */

void fgo_rw_write(struct fgo_rw *o)
{
	fgi_rwlock_write(&o->lock, FGI_NEVER);
	fgo_unshare(); /* its node is gone */
}

void fgo_rw_read(struct fgo_rw *o)
{
	fgi_rwlock_read(&o->lock, FGI_NEVER);
	fgo_unshare(); /* its node is gone */
}

/* With a deadline that comes before the waiter does anything by itself. */
bool fgo_rw_write_for_a_while(struct fgo_rw *o)
{
	struct timespec soon = fgi_timespec(fgi_now_ns(CLOCK_MONOTONIC) + FGI_RW_RESERVE_NS / 2);
	bool taken = fgi_rwlock_write(&o->lock, FGI_DEADLINE(CLOCK_MONOTONIC, &soon)) == 0;

	fgo_unshare();
	return taken;
}

/* A new lock begins at the address. Returns whether the thread still stands in the table. */
bool fgo_rw_forgets(struct fgo_rw *o, uint32_t tid)
{
	fgi_readers_forget(&o->lock);
	return table->readers[tid % FGI_READER_ROWS][fgi_readers_column(o)] == 0;
}

bool fgo_rw_try_write(struct fgo_rw *o)
{
	return fgi_rwlock_try_write(&o->lock) == 0;
}

bool fgo_rw_try_read(struct fgo_rw *o)
{
	return fgi_rwlock_try_read(&o->lock) == 0;
}

void fgo_rw_unlock(struct fgo_rw *o)
{
	fgi_rwlock_unlock(&o->lock);
}

void fgo_rw_touch(struct fgo_rw *o)
{
	o->data++;
}

uint32_t fgo_rw_data(const struct fgo_rw *o)
{
	return o->data;
}
