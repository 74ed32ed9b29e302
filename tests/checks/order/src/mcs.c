/* SPDX-License-Identifier: MIT */
/* The MCS lock of lab/locks/ and the calls by which the model drives it. Its atomic operations are the generic
 * architecture's. Each of arm64's (runtime/arch/aarch64/window.h) has the same order or a stronger one; a thread that
 * grants itself the lock writes to its own node, which no other thread reads then. A thread has one node, which it uses
 * for each of its sections. */
#include "src/model.h"

void fgi_nap(uint32_t ns);
#define fg_pause() fgi_nap(0) /* another thread goes on */

#include "runtime/arch/generic/window.h"

#include "locks/published/mcs.inc.h"

#define THREADS 3

struct fgo_mcs {
	struct fg_lock lock;
	uint32_t data; /* what the lock protects */
	struct fg_queue_node nodes[THREADS];
} __attribute__((aligned(FG_CACHE_LINE)));

static struct fgo_mcs objects[FGO_OBJECTS];

/* `lock` is an object's first member, and `tail` the lock's. */
struct fg_queue_node *fgi_node_need(uint64_t *tail)
{
	struct fg_queue_node *node = &((struct fgo_mcs *)tail)->nodes[fg_thread.self - 1];

	fg_store_relaxed(&node->next, 0);
	fg_store_relaxed(&node->state, FG_NODE_WAITING);
	return node;
}

void fgi_node_put(struct fg_queue_node *node)
{
	fg_store_relaxed(&node->state, FG_NODE_FREE);
}

/* No process of the model forks. */
bool fgi_node_holds(const struct fg_queue_node *node, const uint64_t *tail)
{
	(void)node;
	(void)tail;
	return false;
}

/* The nth, new. */
struct fgo_mcs *fgo_mcs_new(uint32_t n, const struct fgo_setup *setup)
{
	(void)setup;
	objects[n] = (struct fgo_mcs){0};
	return &objects[n];
}

size_t fgo_mcs_places(struct fgo_mcs *o, struct fgo_place *places)
{
	size_t n = 0;

	places[n++] = (struct fgo_place){&o->lock.tail, sizeof(o->lock.tail)};
	places[n++] = (struct fgo_place){&o->lock.holder, sizeof(o->lock.holder)};
	places[n++] = (struct fgo_place){&o->data, sizeof(o->data)};
	for (int i = 0; i < THREADS; i++) {
		places[n++] = (struct fgo_place){&o->nodes[i].next, sizeof(o->nodes[i].next)};
		places[n++] = (struct fgo_place){&o->nodes[i].state, sizeof(o->nodes[i].state)};
	}
	return n;
}

void fgo_mcs_lock(struct fgo_mcs *o)
{
	fgi_lock(&o->lock);
}

bool fgo_mcs_trylock(struct fgo_mcs *o)
{
	return fgi_trylock(&o->lock);
}

void fgo_mcs_unlock(struct fgo_mcs *o)
{
	fgi_unlock(&o->lock);
}

void fgo_mcs_touch(struct fgo_mcs *o)
{
	o->data++;
}

uint32_t fgo_mcs_data(struct fgo_mcs *o)
{
	return o->data;
}
