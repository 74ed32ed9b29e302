/* SPDX-License-Identifier: MIT */
/* What a thread tells the monitor about itself, held against what a test knows. */
#ifndef FG_TESTS_SECTIONS_H
#define FG_TESTS_SECTIONS_H

#include "runtime/thread.h"
#include "tests/check.h"

/* Outside of lock calls `pending` leads to a word that the thread owns, or nowhere; and what the monitor would find by
 * it and by `held` is `locks` in number. */
static inline void check_sections(int line, int locks)
{
	const uint32_t *word = (const uint32_t *)(uintptr_t)fg_thread.pending;
	int told = fg_thread.held;

	if (word) {
		uint32_t found = fg_load_relaxed(word);

		CHECK((found & FG_OWNER_MASK) == fg_thread.self, "line %d: `pending` leads to %#x", line, found);
		told++;
	}
	CHECK(told == locks, "line %d: %d locks are told of, not %d", line, told, locks);
	CHECK(fgi_sections() == locks);
}

#define CHECK_SECTIONS(locks) check_sections(__LINE__, locks)

#endif
