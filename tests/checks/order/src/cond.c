/* SPDX-License-Identifier: MIT */
/* Condition variables (lib/sync/cond.c) and the calls by which the model drives them. rwlock.c beside this file has the
 * parking lot. */
#include "src/model.h"

#include <stdlib.h>

#include "runtime/cancel.h"
#include "runtime/cleanup.h"
#include "sync/awake.h"

#define _pthread_cleanup_push(buffer, run, argument) ((void)(buffer), (void)(run))
#define _pthread_cleanup_pop(buffer, execute) ((void)0)

#include "sync/cond.c"

#define WAITERS 2

struct fgo_cond {
	struct fgi_cond cond;
	uint32_t data;
	char mutex[FG_CACHE_LINE]; /* its address says which bucket the waiters are in */
	struct fgi_due due;
	struct waiter waiters[WAITERS];
} __attribute__((aligned(FG_CACHE_LINE)));

/* More than tests, so that each finds one whose bucket no other uses. */
static struct fgo_cond objects[FGO_OBJECTS * 64];

/* For the thread of the system on which a model runs: does the thread that signals hold the mutex? */
static __thread struct fgi_due *held;

static struct fgi_due *due_of(void *mutex)
{
	(void)mutex;
	return held;
}

static const struct fgi_cond_mutexes fgo_mutexes = {.due = due_of};

struct fgo_cond *fgo_cond_new(uint32_t n, const struct fgo_setup *setup)
{
	struct fgo_cond *o = objects;

	(void)setup;
	while (fgi_hash_of(o->mutex, FGI_BUCKET_BITS) != n)
		if (++o == objects + sizeof(objects) / sizeof(objects[0]))
			abort();
	fgi_parked_lists[n] = (struct fgi_parked_list){0};
	fgi_bucket_owners[n] = (uintptr_t)o->mutex;
	fgo_inside_none();
	held = NULL;
	*o = (struct fgo_cond){0};
	return o;
}

size_t fgo_cond_places(struct fgo_cond *o, struct fgo_place *places)
{
	struct fgi_parked_list *list = fgi_parked_list_of(o->mutex);
	size_t n = 0;

	places[n++] = (struct fgo_place){&o->cond.waited, sizeof(o->cond.waited)};
	places[n++] = (struct fgo_place){&o->data, sizeof(o->data)};
	places[n++] = (struct fgo_place){&list->word, sizeof(list->word)};
	places[n++] = (struct fgo_place){&list->queues, sizeof(list->queues)};
	places[n++] = (struct fgo_place){&list->numbered, sizeof(list->numbered)};
	for (uint32_t i = 0; i < WAITERS; i++) {
		struct waiter *w = &o->waiters[i];

		places[n++] = (struct fgo_place){&w->node.next, sizeof(w->node.next)};
		places[n++] = (struct fgo_place){&w->node.prev, sizeof(w->node.prev)};
		places[n++] = (struct fgo_place){&w->node.sibling, sizeof(w->node.sibling)};
		places[n++] = (struct fgo_place){&w->node.lower, sizeof(w->node.lower)};
		places[n++] = (struct fgo_place){&w->node.higher, sizeof(w->node.higher)};
		places[n++] = (struct fgo_place){&w->node.object, sizeof(w->node.object)};
		places[n++] = (struct fgo_place){&w->node.number, sizeof(w->node.number)};
		places[n++] = (struct fgo_place){&w->node.told_ns, sizeof(w->node.told_ns)};
		places[n++] = (struct fgo_place){&w->node.state, sizeof(w->node.state)};
		places[n++] = (struct fgo_place){&w->node.list, sizeof(w->node.list)};
		places[n++] = (struct fgo_place){&w->node.forks, sizeof(w->node.forks)};
		places[n++] = (struct fgo_place){&w->due, sizeof(w->due)};
		places[n++] = (struct fgo_place){&w->had, sizeof(w->had)};
	}
	return n;
}

void fgo_cond_join(struct fgo_cond *o, uint32_t i)
{
	struct waiter *w = &o->waiters[i];

	w->mutexes = &fgo_mutexes;
	w->mutex = o->mutex;
	w->deadline = FGI_NEVER;
	join(&o->cond, w);
}

/* Until told. */
void fgo_cond_wait(struct fgo_cond *o, uint32_t i)
{
	struct waiter *w = &o->waiters[i];

	while (!fgi_parked_told(&w->node))
		sleep_once(w);
	w->node.told_ns = 0; /* the node goes */
	w->had = NOTHING;
}

/* At its deadline. Returns whether it had a signal. */
bool fgo_cond_leave(struct fgo_cond *o, uint32_t i)
{
	return leave(&o->waiters[i]) == SIGNAL;
}

void fgo_cond_signal(struct fgo_cond *o)
{
	fgi_cond_signal(&o->cond);
}

void fgo_cond_broadcast(struct fgo_cond *o)
{
	fgi_cond_broadcast(&o->cond);
}

/* By the holder of the mutex, which does not unlock it. */
void fgo_cond_move(struct fgo_cond *o)
{
	held = &o->due;
	fgi_cond_broadcast(&o->cond);
	held = NULL;
}

/* And an unlock. What the waiter would find with the mutex it finds without. `sleepers` of those it wakes. */
void fgo_cond_unlock(struct fgo_cond *o, bool sleepers)
{
	o->due.in_flight = sleepers ? 0 : LEAST_IN_FLIGHT;
	o->due.woken_at = (uint16_t)(fgi_now_ns(CLOCK_MONOTONIC) >> WOKEN_SHIFT);
	fgi_due_tell(fgi_due_take(&o->due, o->mutex));
}

void fgo_cond_touch(struct fgo_cond *o)
{
	o->data++;
}

uint32_t fgo_cond_data(const struct fgo_cond *o)
{
	return o->data;
}
