/* SPDX-License-Identifier: MIT */
/* Stands in for runtime/arch/x86_64/asymmetric.h in tests/stress/wakeups.c: the release as another CPU may see it.
 *
 * The release is one AND. Its load executes at once, its store may stay in the CPU's store buffer for a while, and
 * overwrites what another CPU sets in between. On most machines that while is shorter than a system call, so a missing
 * membarrier would hardly ever show. Here the store is late on purpose, and fgi_membarrier, which has every CPU empty
 * its store buffer, returns when the stores that were late have arrived. */
#ifndef FGI_ARCH_ASYMMETRIC_H
#define FGI_ARCH_ASYMMETRIC_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/membarrier.h"

#define FGI_LATE_ONE_IN 8u
#define FGI_LATEST_SPINS 2048u /* some 50 us */

static struct {
	uint32_t begun, arrived;
} fgi_late_stores;

static inline bool fgi_asymmetric_release(uint32_t *word, uint32_t kept)
{
	uint32_t found, dice = __builtin_ia32_rdtsc() >> 4 & 0xffffff;

	__atomic_add_fetch(&fgi_late_stores.begun, 1, __ATOMIC_SEQ_CST);
	found = __atomic_load_n(word, __ATOMIC_SEQ_CST);
	if (dice % FGI_LATE_ONE_IN == 0)
		for (uint32_t spin = 0; spin < dice / FGI_LATE_ONE_IN % FGI_LATEST_SPINS; spin++)
			__builtin_ia32_pause();
	__atomic_store_n(word, found & kept, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&fgi_late_stores.arrived, 1, __ATOMIC_SEQ_CST);
	return (found & kept) >> 31;
}

bool __real_fgi_membarrier(void);

bool __wrap_fgi_membarrier(void)
{
	uint32_t begun = __atomic_load_n(&fgi_late_stores.begun, __ATOMIC_SEQ_CST);

	while ((int32_t)(__atomic_load_n(&fgi_late_stores.arrived, __ATOMIC_SEQ_CST) - begun) < 0)
		sched_yield();
	return __real_fgi_membarrier();
}

#endif
