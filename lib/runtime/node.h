/* SPDX-License-Identifier: MIT */
/* Queue nodes in type-stable memory.
 *
 * The predecessor of a waiter writes into the waiter's node, and the monitor may read it at any time. So a node must
 * stay a node for ever, also after its thread has exited (design invariant I3). Nodes come in chunks. The first is
 * static, so that there are nodes even if no address space is left (RLIMIT_AS); further chunks are mapped one by one
 * and never given back. Free nodes pass between threads through the pool, a lock-free stack, and return to it when
 * their thread exits. A thread needs one node for all locks that keep it only while waiting, and one for each MCS lock
 * held.
 *
 * A waiter that leaves a queue out of order leaves its node behind in state FG_NODE_LEFT. The thread sets such a node
 * aside until the queue's head has skipped it (FG_NODE_FREE again); before that it may take up the same place in the
 * queue again. */
#ifndef FGI_NODE_H
#define FGI_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/flexguard_abi.h"

/* A free node for the queue at `tail`: next 0, state FG_NODE_WAITING. NULL if none is to be had (no memory for another
 * chunk, or FGI_NODES in use, or this thread has FGI_NODES_ASIDE nodes in queues that it left): then the caller waits
 * without a queue. Maps a chunk if the pool must grow. Keeps errno. */
struct fg_queue_node *fgi_node_get(uint64_t *tail);

/* The same for a waiter that will not leave the queue out of order, and needs a node: if there is none, it waits until
 * another thread gives one back. */
struct fg_queue_node *fgi_node_need(uint64_t *tail);

/* This thread's node in state LEFT in the queue at `tail`, or NULL. */
struct fg_queue_node *fgi_node_left_at(const uint64_t *tail);

/* Gives back a node that is in no queue. */
void fgi_node_put(struct fg_queue_node *node);

/* The same, but into the pool, from which every thread takes: for a thread that gets more nodes from other threads than
 * it gives (clh). */
void fgi_node_put_in_pool(struct fg_queue_node *node);

/* Keeps a node for later that this thread has left in a queue. */
void fgi_node_set_aside(struct fg_queue_node *node);

/* The node's thread waits with it again: it is no longer set aside. */
void fgi_node_take_back(struct fg_queue_node *node);

/* FGI_NODE_PRIVATE(type): the lock keeps a `type` in the nodes of its queues, where node_private finds it. The type has
 * FGI_IN_NODE, since the memory is declared as something else. The child of a fork finds it zeroed in the nodes with
 * which locks are held. */
#define FGI_IN_NODE __attribute__((may_alias))
#define FGI_NODE_PRIVATE(type)                                                                                         \
	_Static_assert(sizeof(type) <= sizeof(((struct fg_queue_node *)0)->lock_private), "must fit into a node");     \
	static inline type *node_private(const struct fg_queue_node *node)                                             \
	{                                                                                                              \
		return (type *)(uintptr_t)node->lock_private;                                                          \
	}                                                                                                              \
	_Static_assert(1, "")

/* Does a thread hold the lock whose queue is at `tail` with this node? For a lock in the child of a fork that names the
 * node; the address may be any. */
bool fgi_node_holds(const struct fg_queue_node *node, const uint64_t *tail);

void fgi_nodes_start(void);      /* idempotent; run by a constructor */
void fgi_nodes_after_fork(void); /* in the child */

/* For locks that are initialised anew while this thread holds them from before a fork, as children of forks do: frees
 * the nodes of those whose tails were in the `size` bytes at `start`. */
void fgi_nodes_forget(const void *start, size_t size);

/* How many nodes were carried through a fork: 0 means that fgi_nodes_forget has nothing to do. */
extern uint32_t fgi_nodes_carried;

/* How many nodes were ever in use at once (or lost): 64 bytes each. */
uint32_t fgi_nodes_used(void);

/* A bit of a state: a neighbour in the queue has locked the node for a moment (clh-tp). */
#define FGI_NODE_BUSY 0x100u

#define FGI_NODES (1u << 18)   /* 16 MiB */
#define FGI_NODES_CHUNK 1024u  /* 64 KiB */
#define FGI_NODE_NAP_NS 50000u /* between looks of a thread that needs one */
#define FGI_NODES_ASIDE 8u     /* places that a thread may have left and not yet lost */

#endif
