/* SPDX-License-Identifier: MIT */
/* Fibonacci hashing: neighbouring numbers spread evenly over the 2^bits values. */
#ifndef FGI_HASH_H
#define FGI_HASH_H

#include <stdint.h>

static inline uint64_t fgi_hash(uint64_t number, unsigned int bits)
{
	return number * 0x9e3779b97f4a7c15u >> (64 - bits);
}

static inline uint64_t fgi_hash_of(const void *object, unsigned int bits)
{
	return fgi_hash((uint64_t)(uintptr_t)object, bits);
}

#endif
