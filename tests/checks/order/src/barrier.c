/* SPDX-License-Identifier: MIT */
/* The barrier of lib/sync/ and the calls by which the model drives it. */
#include "src/model.h"

#include "sync/barrier.c"

struct fgo_barrier {
	struct fgi_barrier barrier;
	uint32_t data[2]; /* what one thread writes before the barrier, others read behind it */
} __attribute__((aligned(FG_CACHE_LINE)));

static struct fgo_barrier objects[FGO_OBJECTS];

/* The nth, new, of two threads. */
struct fgo_barrier *fgo_barrier_new(uint32_t n, const struct fgo_setup *setup)
{
	struct fgo_barrier *o = &objects[n];

	(void)setup;
	*o = (struct fgo_barrier){.barrier.count = 2};
	return o;
}

size_t fgo_barrier_places(struct fgo_barrier *o, struct fgo_place *places)
{
	size_t n = 0;

	places[n++] = (struct fgo_place){&o->barrier.phase, sizeof(o->barrier.phase)};
	places[n++] = (struct fgo_place){&o->barrier.left, sizeof(o->barrier.left)};
	places[n++] = (struct fgo_place){&o->barrier.arrived, sizeof(o->barrier.arrived)};
	places[n++] = (struct fgo_place){&o->barrier.count, sizeof(o->barrier.count)};
	places[n++] = (struct fgo_place){&o->data[0], sizeof(o->data[0])};
	places[n++] = (struct fgo_place){&o->data[1], sizeof(o->data[1])};
	return n;
}

bool fgo_barrier_wait(struct fgo_barrier *o)
{
	return fgi_barrier_wait(&o->barrier);
}

int fgo_barrier_destroy(struct fgo_barrier *o)
{
	return fgi_barrier_destroy(&o->barrier);
}

/* As a program would that gives the memory back. */
void fgo_barrier_overwrite(struct fgo_barrier *o)
{
	o->barrier.phase = 0;
	o->barrier.left = 0;
	o->barrier.arrived = 0;
	o->barrier.count = 0;
}

void fgo_barrier_store(struct fgo_barrier *o, uint32_t i)
{
	o->data[i]++;
}

uint32_t fgo_barrier_load(const struct fgo_barrier *o, uint32_t i)
{
	return o->data[i];
}
