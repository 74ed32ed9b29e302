/* SPDX-License-Identifier: MIT */
/* x86-64: release without a bus lock, for a word that other threads change only by atomic read-modify-writes while
 * it is owned.
 *
 * One AND removes the owner and leaves the other bits. It is not atomic against other CPUs: a bit that another CPU sets
 * between its load and its store is lost. But it is one instruction, so it is atomic against interrupts. A thread whose
 * bit must not be lost sets it, then has every CPU interrupted (runtime/membarrier.h), then checks that the bit is
 * still set: if so, every later AND sees it. release: x86 keeps the order of stores. */
#ifndef FGI_ARCH_ASYMMETRIC_H
#define FGI_ARCH_ASYMMETRIC_H

#include <stdbool.h>
#include <stdint.h>

/* Keeps the bits `kept` of the word. Returns whether the highest was set. The word is not touched afterwards. */
static inline __attribute__((always_inline)) bool fgi_asymmetric_release(uint32_t *word, uint32_t kept)
{
	bool highest;

	__asm__ volatile("andl %[kept], %[word]" : [word] "+m"(*word), "=@ccs"(highest) : [kept] "er"(kept) : "memory");
	return highest;
}

#endif
