/* SPDX-License-Identifier: MIT */
/* Addresses whose top byte is a tag, which arm64 ignores, or compares with the tag of the memory (MTE). */
#ifndef FG_TEST_TAGS_H
#define FG_TEST_TAGS_H

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "tests/check.h"

#define TAGS_MTE_SYNC (1ul << 1)
#define TAGS_ALL_BUT_0 (0xffful << 3 << 4 | 0xeul << 3)
#define TAGS_PROT_MTE 0x20
#define TAGS_GRANULE 16
#define TAGS_HIGHEST_BIT (1ull << 59) /* of a tag that is checked */

/* The calling thread, and those that it creates, may say tagged addresses to the kernel. */
static inline void tags_allow(unsigned long how)
{
	ok(prctl(PR_SET_TAGGED_ADDR_CTRL, PR_TAGGED_ADDR_ENABLE | how, 0, 0, 0));
}

static inline void *tags_ignored(void *memory)
{
	tags_allow(0);
	return (void *)((uintptr_t)memory | 5ull << 56);
}

/* Zeroed memory, of less than a page. */
static inline void *tags_checked(size_t size)
{
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE | TAGS_PROT_MTE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(memory != MAP_FAILED, "memory with tags: %m");
	tags_allow(TAGS_MTE_SYNC | TAGS_ALL_BUT_0);
	__asm__(".arch armv8.5-a+memtag\n irg %0, %0" : "+r"(memory));
	for (size_t i = 0; i < size; i += TAGS_GRANULE)
		__asm__ volatile(".arch armv8.5-a+memtag\n stg %0, [%0]" : : "r"(memory + i) : "memory");
	CHECK((uintptr_t)memory >> 56 != 0);
	CHECK(access((const char *)((uintptr_t)memory ^ TAGS_HIGHEST_BIT), F_OK) < 0 && errno == EFAULT,
	      "the kernel does not look at tags");
	return memory;
}

#endif
