/* SPDX-License-Identifier: MIT */
/* An owner's word: the 32 bits that decide who owns a lock, for the locks that keep it apart from their queue.
 *
 *   word              meaning
 *   0                 free
 *   tid               held by tid, nobody sleeps on the word
 *   tid | SLEEPERS    held by tid, somebody may sleep on the word
 *
 * The word names its owner, so the monitor sees a holder by published intent, exactly, without windows.
 * I1  The word alone. I2  A waiter sleeps on the word only while SLEEPERS is set; the release clears it and wakes one.
 * Where several may sleep on it, a waiter that has slept takes the word with SLEEPERS set. I5  By published intent
 * (runtime/thread.h). */
#ifndef FGI_PARTS_OWNER_WORD_H
#define FGI_PARTS_OWNER_WORD_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "runtime/arch/arch.h"
#include "runtime/futex.h"
#include "runtime/thread.h"

#define FGI_WORD_SLEEPERS 0x80000000u
_Static_assert((FGI_WORD_SLEEPERS & FG_OWNER_MASK) == 0, "the owner's bits are the owner's");

/* Takes the word if it is free, with `flags` set. acquire: pairs with the release in fgi_word_drop. */
static inline bool fgi_word_try(uint32_t *word, uint32_t flags)
{
	uint32_t self = fgi_self();

	if (fg_load_relaxed(word) != 0)
		return false;
	fgi_intent_set(word);
	if (fg_cas_acquire(word, 0, self | flags) == 0)
		return true;
	fgi_intent_clear(word);
	return false;
}

/* Sleeps until the word is released, or not at all if it is free or just changed. Returns what fgi_futex_wait does. */
__attribute__((noinline, cold)) static int fgi_word_park(uint32_t *word, clockid_t clock, const struct timespec *abs)
{
	uint32_t found = fg_load_relaxed(word);

	if (found == 0)
		return 0;
	if (!(found & FGI_WORD_SLEEPERS) && fg_cas_relaxed(word, found, found | FGI_WORD_SLEEPERS) != found)
		return 0;
	fg_thread.parks++;
	return fgi_futex_wait(word, found | FGI_WORD_SLEEPERS, clock, abs);
}

static inline void fgi_word_drop(uint32_t *word)
{
	uint32_t found;

	fgi_intent_restore(word);
	found = fg_xchg_release(word, 0);
	fgi_intent_clear(word);
	if (fg_unlikely(found & FGI_WORD_SLEEPERS))
		fgi_futex_wake(word, 1);
}

#endif
