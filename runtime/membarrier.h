/* SPDX-License-Identifier: MIT */
/* The rare half of an asymmetric fence. The side that runs often has a compiler barrier; the side that is about to
 * sleep has every CPU that runs this process execute a full one, by an interrupt. */
#ifndef FGI_MEMBARRIER_H
#define FGI_MEMBARRIER_H

#include <stdbool.h>

/* Returns false where the kernel cannot: before Linux 4.14, or where seccomp forbids it. Keeps errno. */
bool fgi_membarrier(void);

/* Announces the process to the kernel, which is quick while it has one thread. Later, the first fgi_membarrier does. */
void fgi_membarrier_start(void);

#endif
