/* SPDX-License-Identifier: MIT */
/* Pseudo-random numbers for workloads: a Weyl sequence through a 64-bit mixer (SplitMix64; Steele, Lea, Flood 2014).
 * One addition and two multiplications; any start will do. */
#ifndef FGB_RANDOM_H
#define FGB_RANDOM_H

#include <stdint.h>

#define FGB_GOLDEN 0x9e3779b97f4a7c15ull /* 2^64 divided by the golden ratio */

static inline uint64_t fgb_mix(uint64_t v)
{
	v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9ull;
	v = (v ^ v >> 27) * 0x94d049bb133111ebull;
	return v ^ v >> 31;
}

static inline uint64_t fgb_random(uint64_t *state)
{
	*state += FGB_GOLDEN;
	return fgb_mix(*state);
}

/* One of 0 .. n-1, n <= 2^32: scales the upper half, without a division. */
static inline uint64_t fgb_below(uint64_t random, uint64_t n)
{
	return (random >> 32) * n >> 32;
}

#endif
