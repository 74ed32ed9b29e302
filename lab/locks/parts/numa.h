/* SPDX-License-Identifier: MIT */
/* The NUMA node that this thread runs on, for locks that hand over within a node. Through the vDSO: some 10 ns, no
 * system call. A hint: the thread may move to another node at once.
 *
 * FGI_NUMA_PRETEND=n (tests only) spreads the CPUs over n nodes, so that a machine with one node runs all of the
 * code. */
#ifndef FGI_PARTS_NUMA_H
#define FGI_PARTS_NUMA_H

#include <stdint.h>

#include "runtime/system.h"

static inline uint32_t fgi_numa_node(void)
{
	unsigned int cpu = 0, node = 0;

	fgi_cpu_read(&cpu, &node);
#ifdef FGI_NUMA_PRETEND
	node = cpu % FGI_NUMA_PRETEND;
#endif
	return node;
}

#endif
