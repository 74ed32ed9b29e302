/* SPDX-License-Identifier: MIT */
/* More state for a lock than its 16 bytes hold, in type-stable memory.
 *
 * A lock asks for an object when it first needs one (most locks are never contended, and never do), and is linked to it
 * by one compare-and-swap on 32 bits of its own. The objects come from reserved address space, which is made usable
 * step by step and, like queue nodes (runtime/node.h), never given back to the system; nothing is allocated. An object
 * is zeroed when it is given back, so a lock gets a zeroed one. A lock that is destroyed gives its object back
 * (fgi_lock_destroy); a lock that is merely forgotten keeps it. When a pool is exhausted a lock must go on without. */
#ifndef FGI_PARTS_EXTENDED_H
#define FGI_PARTS_EXTENDED_H

#include <stdint.h>

#include "runtime/atomic.h"

/* A size for locks with a few words more, and one for locks with a cache line for each NUMA node. */
enum fgi_extended_size { FGI_EXTENDED_SMALL = 0, FGI_EXTENDED_LARGE = 1 };

#define FGI_EXTENDED_SMALL_BYTES 64u
#define FGI_EXTENDED_LARGE_BYTES 512u
#define FGI_EXTENDED_SMALL_COUNT (1u << 18) /* 16 MiB of address space */
#define FGI_EXTENDED_LARGE_COUNT (1u << 15) /* the same */

/* The object that *link names; if *link is 0, attaches one first. NULL: none is to be had. A lock always asks for the
 * same size. Async-signal-safe, keeps errno. */
void *fgi_extended_attach(uint32_t *link, enum fgi_extended_size size);

/* Gives back the object that *link names. The lock must not be in use any more. */
void fgi_extended_detach(uint32_t *link, enum fgi_extended_size size);

/* How many objects of this size were ever in use at once. */
uint32_t fgi_extended_used(enum fgi_extended_size size);

extern char *fgi_extended_region[2];

/* The object that *link names, or NULL. acquire: pairs with the CAS that attached it. */
static inline void *fgi_extended_of(const uint32_t *link, enum fgi_extended_size size)
{
	uint32_t index = fg_load_acquire(link);
	uint32_t bytes = size == FGI_EXTENDED_SMALL ? FGI_EXTENDED_SMALL_BYTES : FGI_EXTENDED_LARGE_BYTES;

	return index ? fgi_extended_region[size] + (uint64_t)(index - 1) * bytes : (void *)0;
}

#endif
