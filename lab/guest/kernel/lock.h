/* SPDX-License-Identifier: GPL-2.0-only */
/* The contract of a file of guest/locks, and what several of them share.
 *
 * A file defines struct lock, of at most 8 bytes, all 0 when free and new, and
 *
 *   lock_take(l)          take it; acquires
 *   lock_try(l)           take it if it is free, at once; acquires if it returns true
 *   lock_drop(l)          release it; on the virtual CPU that took it
 *   lock_is_locked(l)     is it held, or being waited for
 *   lock_is_contended(l)  does another virtual CPU wait for it
 *
 * Preemption is off in all of them, interrupts may be on: a handler may interrupt a waiter and take other locks. So a
 * virtual CPU may wait for several locks at once, and nothing a waiter writes outside of its stack may be only its own.
 * Handlers that interrupt a holder of the same lock do not take it (the kernel's rule). */
#ifndef FLEXGUARD_LOCK_H
#define FLEXGUARD_LOCK_H

#include <linux/atomic.h>
#include <linux/cache.h>
#include <linux/cpumask.h>
#include <linux/processor.h>
#include <linux/types.h>

#include <flexguard_host.h>

#include "counts.h"
#include "publish.h"

/* A spin is some 35 ns. */
#define HALT_SPINS 2048 /* before a paravirtual lock halts (VEE'13, section 5.2). Deviation: 70 us, there about 1 us */
#define TAU_SPINS 64    /* VEE'13, section 4.2: slightly more than a section, about 2 us */

/* One iteration of busy-waiting. */
static __always_inline void spin_once(struct waiting *w)
{
	cpu_relax();
	count_spin(w);
}

/* Sleeps until a kick of one of `bits`, unless *word has another value than `seen`. May return early. */
static __always_inline void halt(struct waiting *w, u32 *word, u32 seen, u32 bits)
{
	count_halt(w);
	flexguard_halt(word, seen, bits);
	count_resumed(w);
}

#define EVERYBODY (~0u)

static __always_inline void kick(u32 *word, int most, u32 bits)
{
	count_kick();
	flexguard_kick(word, most, bits);
}

#endif
