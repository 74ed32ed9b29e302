/* SPDX-License-Identifier: MIT */
#include "flexguard/barrier.h"

#include <stddef.h>

#include "sync/barrier.h"

_Static_assert(sizeof(struct fgi_barrier) == sizeof(struct fg_barrier), "fg_barrier is the barrier");
_Static_assert(offsetof(struct fgi_barrier, count) == sizeof(uint64_t), "FG_BARRIER_INIT");

bool fg_barrier_wait(struct fg_barrier *b)
{
	return fgi_barrier_wait((struct fgi_barrier *)(void *)b->opaque);
}

int fg_barrier_destroy(struct fg_barrier *b)
{
	return fgi_barrier_destroy((struct fgi_barrier *)(void *)b->opaque);
}
