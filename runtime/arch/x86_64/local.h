/* SPDX-License-Identifier: MIT */
/* Read-modify-writes of a word that only this thread writes, signal handlers included: one instruction is atomic
 * against an interrupt, without the bus lock that other CPUs would need. */
#ifndef FGI_ARCH_LOCAL_H
#define FGI_ARCH_LOCAL_H

#include <stdbool.h>
#include <stdint.h>

static inline __attribute__((always_inline)) void fgi_local_add(int32_t *word, int32_t value)
{
	__asm__ volatile("addl %[value], %[word]" : [word] "+m"(*word) : [value] "ri"(value) : "memory", "cc");
}

/* One more, where others may read meanwhile. Behind an instruction with a bus lock a load, an addition and a store
 * would take two cycles longer than this. */
static inline __attribute__((always_inline)) void fgi_local_count(uint32_t *word)
{
	__asm__ volatile("addl $1, %[word]" : [word] "+m"(*word) : : "memory", "cc");
}

/* Returns whether nothing is left. */
static inline __attribute__((always_inline)) bool fgi_local_subtract(uint64_t *word, uint64_t value)
{
	bool nothing;

	__asm__ volatile("subq %[value], %[word]"
			 : [word] "+m"(*word), "=@ccz"(nothing)
			 : [value] "r"(value)
			 : "memory");
	return nothing;
}

/* Returns what it found: it succeeded iff that equals what was expected. */
static inline __attribute__((always_inline)) uint64_t fgi_local_cas(uint64_t *word, uint64_t expected, uint64_t desired)
{
	__asm__ volatile("cmpxchgq %[desired], %[word]"
			 : [word] "+m"(*word), "+a"(expected)
			 : [desired] "r"(desired)
			 : "memory", "cc");
	return expected;
}

#endif
