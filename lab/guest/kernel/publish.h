/* SPDX-License-Identifier: GPL-2.0-only */
/* What a virtual CPU publishes in its thread block (flexguard_abi.h; the block is the host thread's TLS, and on the
 * host a guest's kernel runs with the thread pointer of its thread). One instruction each, so that a handler may
 * interrupt between any two of them; a handler that takes a lock meanwhile leaves the intent null, which hides the
 * interrupted take or release from the monitor for an instant. */
#ifndef FLEXGUARD_PUBLISH_H
#define FLEXGUARD_PUBLISH_H

#include <flexguard_host.h>

/* Offsets in struct fg_thread_block; os-Linux/flexguard.c asserts them. */
#define BLOCK_HELD "%%fs:flexguard_block@tpoff"
#define BLOCK_SELF "%%fs:flexguard_block@tpoff+4"
#define BLOCK_PENDING "%%fs:flexguard_block@tpoff+16"

static __always_inline void publish_held(void)
{
	asm volatile("incl " BLOCK_HELD ::: "memory", "cc");
}

static __always_inline void publish_dropped(void)
{
	asm volatile("decl " BLOCK_HELD ::: "memory", "cc");
}

/* The lock word that this virtual CPU takes or releases next, or null. */
static __always_inline void publish_intent(u32 *word)
{
	asm volatile("movq %0, " BLOCK_PENDING ::"r"(word) : "memory");
}

/* How lock words name this virtual CPU: by its thread id on the host. */
static __always_inline u32 published_self(void)
{
	u32 self;

	asm volatile("movl " BLOCK_SELF ", %0" : "=r"(self));
	return likely(self) ? self : flexguard_name_self();
}

#endif
