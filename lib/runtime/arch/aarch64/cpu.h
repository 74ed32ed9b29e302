/* SPDX-License-Identifier: MIT */
/* arm64: the spin hint and the cycle counter. */
#ifndef FGI_ARCH_CPU_H
#define FGI_ARCH_CPU_H

#include <stdint.h>

/* YIELD does nothing on cores without hardware threads, which are nearly all. ISB empties the pipeline, which takes
 * about as long as a PAUSE on x86-64. */
static inline void fg_pause(void)
{
	__asm__ volatile("isb" ::: "memory");
}

/* The generic timer: of constant frequency, the same on all cores, and slower than the clock of any of them. */
static inline uint64_t fg_cycles(void)
{
	uint64_t count;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
	return count;
}

/* The same, but read only once everything before it in program order has executed. */
static inline uint64_t fg_cycles_ordered(void)
{
	uint64_t count;

	__asm__ volatile("dsb ishld\n isb\n mrs %0, cntvct_el0" : "=r"(count) : : "memory");
	return count;
}

/* No load after this one begins before it, not even by a guess (runtime/arch/x86_64/cpu.h). */
static inline void fg_load_fence(void)
{
	__asm__ volatile("dsb ishld\n isb" ::: "memory");
}

/* A release orders streaming stores, too (runtime/arch/x86_64/cpu.h). */
static inline void fg_streaming_fence(void)
{
}

#endif
