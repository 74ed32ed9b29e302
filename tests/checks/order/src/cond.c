/* SPDX-License-Identifier: MIT */
/* The waiters of condition variables (lib/interpose/waitq.c) and the calls by which the model drives them. */
#include "src/model.h"

#include <stdlib.h>

#include "interpose/waitq.c"

#define WAITERS 4

struct fgo_cond {
	struct fgi_waitq queue;
	uint32_t data;
	struct fgi_waiter waiters[WAITERS];
} __attribute__((aligned(FG_CACHE_LINE)));

/* More than tests, so that each finds one whose list no other uses. */
static struct fgo_cond objects[FGO_OBJECTS * 64];

struct fgo_cond *fgo_cond_new(uint32_t n, const struct fgo_setup *setup)
{
	struct fgo_cond *o = objects;

	(void)setup;
	while (fgi_bucket_of(o) != n)
		if (++o == objects + sizeof(objects) / sizeof(objects[0]))
			abort();
	buckets[n] = (struct bucket){0};
	*o = (struct fgo_cond){0};
	return o;
}

size_t fgo_cond_places(struct fgo_cond *o, struct fgo_place *places)
{
	struct bucket *b = &buckets[fgi_bucket_of(o)];
	size_t n = 0;

	places[n++] = (struct fgo_place){&o->queue.waited, sizeof(o->queue.waited)};
	places[n++] = (struct fgo_place){&o->data, sizeof(o->data)};
	places[n++] = (struct fgo_place){&b->word, sizeof(b->word)};
	places[n++] = (struct fgo_place){&b->lists, sizeof(b->lists)};
	places[n++] = (struct fgo_place){&b->numbered, sizeof(b->numbered)};
	for (uint32_t i = 0; i < WAITERS; i++) {
		struct fgi_waiter *w = &o->waiters[i];

		places[n++] = (struct fgo_place){&w->next, sizeof(w->next)};
		places[n++] = (struct fgo_place){&w->prev, sizeof(w->prev)};
		places[n++] = (struct fgo_place){&w->last, sizeof(w->last)};
		places[n++] = (struct fgo_place){&w->list, sizeof(w->list)};
		places[n++] = (struct fgo_place){&w->granted_ns, sizeof(w->granted_ns)};
		places[n++] = (struct fgo_place){&w->state, sizeof(w->state)};
		places[n++] = (struct fgo_place){&w->grant, sizeof(w->grant)};
	}
	return n;
}

void fgo_cond_join(struct fgo_cond *o, uint32_t i)
{
	fgi_waitq_join(&o->queue, &o->waiters[i]);
}

/* Until granted. */
void fgo_cond_wait(struct fgo_cond *o, uint32_t i)
{
	while (!fgi_waiter_granted(&o->waiters[i]))
		fgi_waiter_sleep(&o->waiters[i], CLOCK_MONOTONIC, NULL);
	o->waiters[i].granted_ns = 0; /* the node goes */
	o->waiters[i].grant = 0;
}

/* At its deadline. Returns whether it was granted, or is to be. */
bool fgo_cond_leave(struct fgo_cond *o, uint32_t i)
{
	return fgi_waitq_leave(&o->waiters[i]) != FGI_LEFT && o->waiters[i].grant == FGI_SIGNALLED;
}

bool fgo_cond_signal(struct fgo_cond *o)
{
	struct fgi_waiter *w = fgi_waitq_take_first(&o->queue);

	fgi_waiters_grant(w);
	return w != NULL;
}

void fgo_cond_broadcast_only(struct fgo_cond *o)
{
	struct fgi_waiter *w = fgi_waitq_take_all(&o->queue);
	uint32_t *word = w ? fgi_waiter_watch(w) : NULL;

	if (word)
		fgi_futex_wake(word, 1);
}

void fgo_cond_broadcast(struct fgo_cond *o)
{
	fgi_waiters_grant(fgi_waitq_take_all(&o->queue));
}

/* As the holder of the mutex does it: it grants when it unlocks, and in between the waiter may watch. */
void fgo_cond_signal_late(struct fgo_cond *o)
{
	struct fgi_waiter *w = fgi_waitq_take_first(&o->queue);
	uint32_t *word = w ? fgi_waiter_watch(w) : NULL;

	if (word)
		fgi_futex_wake(word, 1);
	fgi_waiters_grant(w);
}

void fgo_cond_touch(struct fgo_cond *o)
{
	o->data++;
}

uint32_t fgo_cond_data(const struct fgo_cond *o)
{
	return o->data;
}
