/* SPDX-License-Identifier: MIT */
#include "runtime/node.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "runtime/atomic.h"
#include "runtime/futex.h"
#include "runtime/system.h"
#include "runtime/thread.h"

/* The pool. Nodes [0 .. used) have been handed out at least once. A node's name is its index + 1; from then on it
 * stands in the high half of `free`. The low half names the node below it on the stack that it is on; 0: none; OUT: it
 * is on no stack, because a thread uses it or has set it aside.
 *
 * `stack` is a Treiber stack of the nodes that no thread has: the name of the top in the low half, and in the high half
 * a tag that each change advances, so that a node popped and pushed again meanwhile is not mistaken for the old top.
 *
 * The first chunk has pages of its own: once one node of a page has been used, the oracle of the tests can read all. */
static struct fg_queue_node first_chunk[FGI_NODES_CHUNK] __attribute__((aligned(FG_PAGE)));
static struct fg_queue_node *chunks[FGI_NODES / FGI_NODES_CHUNK] = {first_chunk};
static uint32_t used;
static uint64_t stack;
uint32_t fgi_nodes_carried;

/* pthread_setspecific allocates for keys from this number on: then nodes stay with a dead thread. */
#define KEYS_WITHOUT_ALLOCATION 32
static pthread_key_t exit_key;
static uint32_t have_exit_key;

static __thread struct {
	struct fg_queue_node *free;                   /* a stack of FG_NODE_FREE */
	struct fg_queue_node *aside[FGI_NODES_ASIDE]; /* LEFT, PASSED or FREE again; NULL: an empty place */
	struct fg_queue_node *hand;                   /* on its way from or to a stack, see fgi_nodes_after_fork */
	bool returns_at_exit;
} mine __attribute__((tls_model("initial-exec")));

#define OUT UINT32_MAX

/* relaxed: the thread that hands a name over has seen the chunk, and hands the name over by a release. */
static struct fg_queue_node *node_at(uint32_t index)
{
	return fg_load_relaxed(&chunks[index / FGI_NODES_CHUNK]) + index % FGI_NODES_CHUNK;
}

static struct fg_queue_node *named(uint32_t name)
{
	return name ? node_at(name - 1) : NULL;
}

static uint32_t name_of(const struct fg_queue_node *node)
{
	return node ? (uint32_t)(fg_load_relaxed(&node->free) >> 32) : 0;
}

static struct fg_queue_node *below(const struct fg_queue_node *node)
{
	return named((uint32_t)fg_load_relaxed(&node->free)); /* the low half */
}

static void put_on(struct fg_queue_node *node, uint32_t name_below)
{
	fg_store_relaxed(&node->free, (fg_load_relaxed(&node->free) & ~(uint64_t)UINT32_MAX) | name_below);
}

static bool is_out(const struct fg_queue_node *node)
{
	return (uint32_t)fg_load_relaxed(&node->free) == OUT;
}

/* For a signal handler of this thread that forks, and for nobody else. */
static void take_in_hand(struct fg_queue_node *node)
{
	fg_compiler_barrier();
	mine.hand = node;
	fg_compiler_barrier();
}

static void push(struct fg_queue_node *node)
{
	uint64_t top = fg_load_relaxed(&stack), found;

	for (;;) {
		put_on(node, (uint32_t)top);
		/* release: pairs with pop's acquire, which reads the link */
		found = fg_cas_release(&stack, top, ((top >> 32) + 1) << 32 | name_of(node));
		if (found == top)
			return;
		top = found;
	}
}

static struct fg_queue_node *pop(void)
{
	uint64_t top = fg_load_acquire(&stack), found;

	while (top & UINT32_MAX) {
		struct fg_queue_node *node = node_at((uint32_t)top - 1);
		uint64_t name_below;

		take_in_hand(node);
		name_below = fg_load_relaxed(&node->free) & UINT32_MAX; /* meaningless if another thread pops first */
		found = fg_cas_acquire(&stack, top, ((top >> 32) + 1) << 32 | name_below);
		if (found == top)
			return node;
		top = found;
	}
	return NULL;
}

/* Several threads may map the chunk at once: the first one's stays. */
static bool have_chunk(uint32_t chunk)
{
	const size_t bytes = FGI_NODES_CHUNK * sizeof(first_chunk[0]);
	struct fg_queue_node *nothing = NULL;
	void *space;

	if (fg_likely(fg_load_acquire(&chunks[chunk])))
		return true;
	space = fgi_system_map(bytes, 0);
	if (!space)
		return false;
	if (fg_cas_acq_rel(&chunks[chunk], nothing, (struct fg_queue_node *)space) != nothing)
		fgi_system_unmap(space, bytes);
	return true;
}

/* Takes a node that was never used. */
static struct fg_queue_node *fresh(void)
{
	uint32_t i = fg_load_relaxed(&used), found;

	for (;; i = found) {
		if (i >= FGI_NODES || !have_chunk(i / FGI_NODES_CHUNK))
			return NULL;
		take_in_hand(node_at(i));
		found = fg_cas_relaxed(&used, i, i + 1);
		if (found == i) {
			fg_store_relaxed(&node_at(i)->free, (uint64_t)(i + 1) << 32);
			return node_at(i);
		}
	}
}

/* Runs when a thread ends, and again if a later destructor of the thread used a lock. Nodes that were left in a queue
 * go to the stack as they are: a thread that pops one sets it aside until it is free. */
static void thread_exit(void *unused)
{
	struct fg_queue_node *node;

	(void)unused;
	mine.returns_at_exit = false;
	while ((node = mine.free)) {
		take_in_hand(node);
		mine.free = below(node);
		push(node);
	}
	for (unsigned int i = 0; i < FGI_NODES_ASIDE; i++) {
		node = mine.aside[i];
		take_in_hand(node);
		mine.aside[i] = NULL;
		if (node)
			push(node);
	}
	take_in_hand(NULL);
}

static void return_at_exit(void)
{
	if (mine.returns_at_exit || !fg_load_acquire(&have_exit_key))
		return;
	mine.returns_at_exit = true;
	pthread_setspecific(exit_key, &mine);
}

void fgi_nodes_start(void)
{
	static uint32_t begun;
	int saved = errno;

	if (fg_load_relaxed(&begun) || fg_xchg_relaxed(&begun, 1))
		return;
	if (pthread_key_create(&exit_key, thread_exit) == 0 && exit_key < KEYS_WITHOUT_ALLOCATION)
		fg_store_release(&have_exit_key, 1);
	errno = saved;
}

static bool set_aside(struct fg_queue_node *node)
{
	for (unsigned int i = 0; i < FGI_NODES_ASIDE; i++) {
		if (!mine.aside[i]) {
			mine.aside[i] = node;
			return true;
		}
	}
	return false;
}

/* A node that this thread left in a queue and that has been skipped since. */
static struct fg_queue_node *recover(void)
{
	for (unsigned int i = 0; i < FGI_NODES_ASIDE; i++) {
		struct fg_queue_node *node = mine.aside[i];

		/* acquire: pairs with the release that freed it, after the last write of the head that skipped it */
		if (node && fg_load_acquire(&node->state) == FG_NODE_FREE) {
			take_in_hand(node);
			mine.aside[i] = NULL;
			return node;
		}
	}
	return NULL;
}

static bool may_set_aside(void)
{
	for (unsigned int i = 0; i < FGI_NODES_ASIDE; i++)
		if (!mine.aside[i])
			return true;
	return false;
}

/* Returns a node that is in hand, or NULL. */
static struct fg_queue_node *obtain(void)
{
	struct fg_queue_node *node = mine.free;

	if (node) {
		take_in_hand(node);
		mine.free = below(node);
		return node;
	}
	node = recover();
	if (node)
		return node;
	fgi_nodes_start();
	return_at_exit();
	while ((node = pop())) {
		if (fg_load_acquire(&node->state) == FG_NODE_FREE)
			return node;
		fg_store_relaxed(&node->owner, (uint64_t)(uintptr_t)&fg_thread);
		if (!set_aside(node)) { /* a dead thread's, still in a queue */
			push(node);
			break;
		}
	}
	return fresh();
}

static void prepare(struct fg_queue_node *node, uint64_t *tail)
{
	fg_store_relaxed(&node->next, 0);
	fg_store_relaxed(&node->tail, (uint64_t)(uintptr_t)tail);
	fg_store_relaxed(&node->owner, (uint64_t)(uintptr_t)&fg_thread);
	fg_store_relaxed(&node->state, FG_NODE_WAITING);
	put_on(node, OUT);
	take_in_hand(NULL);
}

struct fg_queue_node *fgi_node_get(uint64_t *tail)
{
	struct fg_queue_node *node = may_set_aside() ? obtain() : recover();

	if (node)
		prepare(node, tail);
	if (node && !may_set_aside()) { /* every node that a thread gets here leaves one place free to set it aside */
		fgi_node_put(node);
		node = NULL;
	}
	return node;
}

struct fg_queue_node *fgi_node_need(uint64_t *tail)
{
	struct fg_queue_node *node;

	while (!(node = obtain()))
		fgi_nap(FGI_NODE_NAP_NS);
	prepare(node, tail);
	return node;
}

/* The node, in the hand of this thread, which gives it back. False: it is on a stack already. A call that a signal
 * handler interrupted to fork may give back what it has from a thread of the parent. */
static bool give_back(struct fg_queue_node *node)
{
	fg_store_relaxed(&node->owner, (uint64_t)(uintptr_t)&fg_thread);
	fg_compiler_barrier();
	if (fg_unlikely(!is_out(node)))
		return false;
	take_in_hand(node);
	return true;
}

void fgi_node_put(struct fg_queue_node *node)
{
	if (!give_back(node))
		return;
	fg_store_relaxed(&node->state, FG_NODE_FREE);
	put_on(node, name_of(mine.free));
	mine.free = node;
	take_in_hand(NULL);
}

void fgi_node_put_in_pool(struct fg_queue_node *node)
{
	if (!give_back(node))
		return;
	fg_store_relaxed(&node->state, FG_NODE_FREE); /* push releases it */
	push(node);
	take_in_hand(NULL);
}

struct fg_queue_node *fgi_node_left_at(const uint64_t *tail)
{
	for (unsigned int i = 0; i < FGI_NODES_ASIDE; i++) {
		struct fg_queue_node *node = mine.aside[i];

		if (node && fg_load_relaxed(&node->tail) == (uint64_t)(uintptr_t)tail &&
		    fg_load_relaxed(&node->state) == FG_NODE_LEFT)
			return node;
	}
	return NULL;
}

void fgi_node_set_aside(struct fg_queue_node *node)
{
	set_aside(node);
}

void fgi_node_take_back(struct fg_queue_node *node)
{
	for (unsigned int i = 0; i < FGI_NODES_ASIDE; i++)
		if (mine.aside[i] == node)
			mine.aside[i] = NULL;
}

void fgi_nodes_forget(const void *start, size_t size)
{
	uint64_t me = (uint64_t)(uintptr_t)&fg_thread, from = (uint64_t)(uintptr_t)start;

	for (uint32_t i = 0; i < fg_load_relaxed(&used); i++) {
		struct fg_queue_node *node = node_at(i);

		if (fg_load_relaxed(&node->state) == FG_NODE_OWNED && fg_load_relaxed(&node->owner) == me &&
		    fg_load_relaxed(&node->tail) - from < size)
			fgi_node_put_in_pool(node);
	}
}

uint32_t fgi_nodes_used(void)
{
	return fg_load_relaxed(&used);
}

/* The node at the address, or NULL. */
static const struct fg_queue_node *node_if_at(uint64_t address)
{
	for (uint32_t i = 0; i < fg_load_relaxed(&used); i += FGI_NODES_CHUNK) {
		uint64_t index = (address - (uint64_t)(uintptr_t)node_at(i)) / sizeof(struct fg_queue_node);

		if (index < FGI_NODES_CHUNK)
			return node_at(i + (uint32_t)index);
	}
	return NULL;
}

bool fgi_node_holds(const struct fg_queue_node *node, const uint64_t *tail)
{
	node = node_if_at((uint64_t)(uintptr_t)node);
	return node && fg_load_relaxed(&node->state) == FG_NODE_OWNED &&
	       fg_load_relaxed(&node->tail) == (uint64_t)(uintptr_t)tail;
}

/* A bit of the states below, which only fgi_nodes_after_fork sets and sees. */
#define KEPT 0x200u

static void keep(struct fg_queue_node *node)
{
	if (node)
		node->state |= KEPT;
}

/* A node that is in use, or was in the parent. The lock of one that is OWNED stays held, as POSIX has it. */
static void use_after_fork(struct fg_queue_node *node)
{
	uint64_t me = (uint64_t)(uintptr_t)&fg_thread;

	if (node->state == FG_NODE_OWNED) {
		node->next = 0; /* all that wait behind it stayed in the parent */
		memset(node->lock_private, 0, sizeof(node->lock_private));
		fgi_nodes_carried += node->owner == me;
	} else if (node->owner != me) {
		node->state = FG_NODE_FREE;
		push(node);
	}
}

/* The child has one thread, and no other one is in a queue. So every node is free, except those with which a lock is
 * held, those that this thread keeps for itself, and those of a call of its own: a signal handler may fork at any
 * instruction of one, which goes on in the child afterwards. Where it is about to move a node, `hand` has it. What only
 * looks like that is lost to the child: a node that a lock has passed on to a thread of the parent (clh), or that
 * another thread has popped first. The locks themselves are not touched: a lock may be in memory that the parent shares
 * and uses, or that the child does not have. */
void fgi_nodes_after_fork(void)
{
	struct fg_queue_node *node;

	stack = ((stack >> 32) + 1) << 32; /* a pop or push that was interrupted fails */
	fgi_nodes_carried = 0;
	for (node = mine.free; node; node = below(node))
		keep(node);
	for (unsigned int i = 0; i < FGI_NODES_ASIDE; i++)
		keep(mine.aside[i]);
	keep(mine.hand);
	for (uint32_t i = 0; i < used; i++) {
		bool kept, out;

		node = node_at(i);
		kept = node->state & KEPT;
		out = is_out(node);
		node->free = (uint64_t)(i + 1) << 32 | (uint32_t)node->free; /* its thread may have been about to */
		node->state &= ~(KEPT | FGI_NODE_BUSY); /* the neighbour that made it busy stayed in the parent */
		if (node->state == FG_NODE_LEFT || node->state == FG_NODE_PASSED)
			node->state = FG_NODE_FREE; /* in no queue of the child */
		if (kept)
			continue;
		if (out) {
			use_after_fork(node);
		} else {
			node->state = FG_NODE_FREE;
			push(node);
		}
	}
}
