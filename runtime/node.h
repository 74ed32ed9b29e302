/* SPDX-License-Identifier: MIT */
/* Queue nodes in type-stable memory.
 *
 * The predecessor of a waiter writes into the waiter's node, and the monitor reads it at any time; so a node must stay
 * a node for ever, also when its thread has exited (design invariant I3). Nodes come in chunks: the first is static, so
 * that there are some where no address space is left (RLIMIT_AS); others are mapped one by one and never given back.
 * They pass through a lock-free stack between threads, and return to it when their thread exits. A thread needs one
 * node for all FlexGuard locks (they are queued at only while waiting), and one per held lock for MCS.
 *
 * A waiter that leaves a queue out of order leaves its node behind in state FG_NODE_LEFT. Such a node is set aside
 * until whoever passes the queue's head on has skipped it (FG_NODE_FREE again); its thread may take the very place up
 * again (locks/parts/mcs_queue.h). */
#ifndef FGI_NODE_H
#define FGI_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/flexguard_abi.h"

/* A free node for the queue at `tail`: next 0, state FG_NODE_WAITING. NULL if none is to be had (all of the first chunk
 * in use and no memory for another, or FGI_NODES in use, or this thread has FGI_NODES_ASIDE nodes in queues that it
 * left): the caller then waits without a queue. Maps a chunk where the pool must grow. Keeps errno. */
struct fg_queue_node *fgi_node_get(uint64_t *tail);

/* The same for a waiter that will not leave the queue out of order, and cannot do without: where there is none, it
 * waits until another thread gives one back. */
struct fg_queue_node *fgi_node_need(uint64_t *tail);

/* This thread's node in state LEFT in the queue at `tail`, or NULL. */
struct fg_queue_node *fgi_node_left_at(const uint64_t *tail);

/* Gives back a node that is in no queue. */
void fgi_node_put(struct fg_queue_node *node);

/* The same, but into the pool, from which every thread takes: for a thread that gets more nodes from other threads than
 * it gives (locks/published/clh.c). */
void fgi_node_put_in_pool(struct fg_queue_node *node);

/* Keeps a node for later that this thread has left in a queue. */
void fgi_node_set_aside(struct fg_queue_node *node);

/* Its thread waits with it again: it is no longer aside. */
void fgi_node_take_back(struct fg_queue_node *node);

/* FGI_NODE_PRIVATE(type): the lock keeps a `type` in the nodes of its queues, where node_private finds it. The type has
 * FGI_IN_NODE, since the memory is declared as something else. The child of a fork finds it zeroed in the nodes with
 * which its thread holds locks. */
#define FGI_IN_NODE __attribute__((may_alias))
#define FGI_NODE_PRIVATE(type)                                                                                         \
	_Static_assert(sizeof(type) <= sizeof(((struct fg_queue_node *)0)->lock_private), "must fit into a node");     \
	static inline type *node_private(const struct fg_queue_node *node)                                             \
	{                                                                                                              \
		return (type *)(uintptr_t)node->lock_private;                                                          \
	}                                                                                                              \
	_Static_assert(1, "")

void fgi_nodes_start(void);      /* idempotent; run by a constructor */
void fgi_nodes_after_fork(void); /* in the child */

/* Frees the nodes with which this thread has held, since before a fork, locks whose tails were in the `size` bytes at
 * `start`: they are made anew there. (Children of forks do so with the mutexes that they hold.) */
void fgi_nodes_forget(const void *start, size_t size);

/* Whether there may be any: nodes that were carried through a fork. */
extern uint32_t fgi_nodes_carried;

/* How many nodes were ever in use at once (or lost): 64 bytes each. */
uint32_t fgi_nodes_used(void);

/* A state may carry this bit for a moment: a neighbour in the queue has locked the node (locks/published/clh-tp.c). */
#define FGI_NODE_BUSY 0x100u

#define FGI_NODES (1u << 18)   /* 16 MiB */
#define FGI_NODES_CHUNK 1024u  /* 64 KiB */
#define FGI_NODE_NAP_NS 50000u /* between looks, where there is none */
#define FGI_NODES_ASIDE 8u     /* places that a thread may have left and not yet lost */

#endif
