/* SPDX-License-Identifier: MIT */
/* x86-64: read-modify-writes of a word that only this thread and its signal handlers write. One instruction is atomic
 * against interrupts, without the bus lock that atomicity against other CPUs needs. */
#ifndef FGI_ARCH_LOCAL_H
#define FGI_ARCH_LOCAL_H

#include <stdbool.h>
#include <stdint.h>

static inline __attribute__((always_inline)) void fgi_local_add(int32_t *word, int32_t value)
{
	__asm__ volatile("addl %[value], %[word]" : [word] "+m"(*word) : [value] "ri"(value) : "memory", "cc");
}

/* Adds 1. Other threads may read meanwhile. After an instruction with a bus lock a load, an addition and a store take
 * two cycles longer than this one. */
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
