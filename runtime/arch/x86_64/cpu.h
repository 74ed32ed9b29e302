/* SPDX-License-Identifier: MIT */
/* x86-64: the spin hint and the cycle counter. */
#ifndef FGI_ARCH_CPU_H
#define FGI_ARCH_CPU_H

#include <stdint.h>

static inline void fg_pause(void)
{
	__builtin_ia32_pause();
}

static inline uint64_t fg_cycles(void)
{
	return __builtin_ia32_rdtsc();
}

/* The same, but read only once everything before it in program order has executed and its loads are done. */
static inline uint64_t fg_cycles_ordered(void)
{
	unsigned int cpu;

	return __builtin_ia32_rdtscp(&cpu);
}

#endif
