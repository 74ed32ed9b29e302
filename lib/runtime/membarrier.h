/* SPDX-License-Identifier: MIT */
/* The expensive half of an asymmetric fence. The side that runs often has only a compiler barrier; the side that is
 * about to sleep makes every CPU that runs this process execute a full barrier, by an interrupt. */
#ifndef FGI_MEMBARRIER_H
#define FGI_MEMBARRIER_H

#include <stdbool.h>

/* Returns false if the kernel cannot: before Linux 4.14, or if seccomp forbids it. Keeps errno. */
bool fgi_membarrier(void);

/* Registers the process with the kernel, which is quick while it has one thread. Otherwise the first fgi_membarrier
 * does it. */
void fgi_membarrier_start(void);

#endif
