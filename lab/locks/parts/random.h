/* SPDX-License-Identifier: MIT */
/* Random numbers for decisions of which a lock makes one in thousands. Each thread has a sequence of its own: its seed
 * is its thread id, which no other thread of the process has. */
#ifndef FGI_PARTS_RANDOM_H
#define FGI_PARTS_RANDOM_H

#include "runtime/thread.h"

/* True once in `n` calls on average. The generator is the linear congruential one of Numerical Recipes, whose high
 * bits serve. */
__attribute__((noinline)) static bool fgi_once_in(uint32_t n)
{
	static __thread uint32_t state __attribute__((tls_model("initial-exec")));

	if (fg_unlikely(state == 0))
		state = fgi_self() * 2654435761u; /* Knuth's multiplicative hash: near ids, far seeds */
	state = state * 1664525u + 1013904223u;
	return (state >> 8) % n == 0;
}

#endif
