/* SPDX-License-Identifier: MIT */
/* Watches the queue nodes: I3. Between two steps of a schedule one thread has run, and made one access. So a node that
 * differs from what it was at the step before was written to by that thread. */
#include <string.h>

#include "abi/flexguard_abi.h"
#include "runtime/block.h"
#include "simulator/check/check.h"
#include "simulator/check/schedule.h"

#define MOST 64u

static struct {
	const struct fg_queue_node *first;
	unsigned int count;
	struct fg_queue_node before[MOST];
	enum fgs_pool in[FGS_THREADS];
	bool got[FGS_THREADS]; /* in this call it has begun to prepare one */
} nodes;

void fgs_check_nodes(const struct fg_queue_node *first, unsigned int count)
{
	nodes.first = first;
	nodes.count = count < MOST ? count : MOST;
	memcpy(nodes.before, first, nodes.count * sizeof(*first));
}

void fgs_check_pool(enum fgs_pool in)
{
	uint32_t id = fgs_self()->id;

	nodes.in[id] = in;
	nodes.got[id] = false;
}

static uint64_t block_of(const struct fgs_thread *t)
{
	return t->thread_pointer + (uint64_t)((char *)&fg_thread - (char *)__builtin_thread_pointer());
}

/* The pool may look after a node that a thread has left in a queue at its end: it then changes the owner alone. */
static bool is_prepared(const struct fg_queue_node *was, const struct fg_queue_node *is)
{
	return was->next != is->next || was->tail != is->tail || was->state != is->state;
}

static void look(const struct fgs_thread *writer, const struct fg_queue_node *was, const struct fg_queue_node *is)
{
	uint32_t id = writer->id;
	int thread = (int)id - 1, number = (int)(is - nodes.first);

	if (nodes.in[id] == FGS_GETS && !nodes.got[id] && is_prepared(was, is)) {
		nodes.got[id] = true;
		if (was->state != FG_NODE_FREE)
			fgs_fail("I3: thread %d gets queue node %d, which is in use", thread, number);
	}
	if (nodes.in[id] == FGS_OUTSIDE && was->state == FG_NODE_FREE && was->owner != block_of(writer))
		fgs_fail("I3: thread %d writes to queue node %d, which is free", thread, number);
}

void fgs_nodes_step(const struct fgs_thread *writer)
{
	for (unsigned int i = 0; i < nodes.count; i++) {
		if (memcmp(&nodes.before[i], &nodes.first[i], sizeof(nodes.before[i])) == 0)
			continue;
		look(writer, &nodes.before[i], &nodes.first[i]);
		nodes.before[i] = nodes.first[i];
	}
}
