/* SPDX-License-Identifier: MIT */
/* An owner word: the 32 bits that alone decide which thread owns a lock, for locks that keep their queue apart from it.
 *
 *   word              meaning
 *   0                 free
 *   tid               held by tid; no thread sleeps on the word
 *   tid | SLEEPERS    held by tid; a thread may sleep on the word
 *
 * I1  The word alone decides. I2  A waiter sleeps on the word only while SLEEPERS is set. The release clears SLEEPERS
 * and wakes one sleeper. Where several waiters may sleep, one that has slept takes the word with SLEEPERS set, so that
 * its release wakes the next. I5  By published intent (runtime/thread.h): the word names its owner, so the monitor sees
 * a holder exactly, without windows. */
#ifndef FGI_PARTS_OWNER_WORD_H
#define FGI_PARTS_OWNER_WORD_H

#define FGI_LOCK_NAMES_OWNER
#include "lock/lock.h"

#define FGI_WORD_SLEEPERS 0x80000000u
_Static_assert((FGI_WORD_SLEEPERS & FG_OWNER_MASK) == 0, "the flag must not be one of the owner's bits");

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

/* Sleeps until the word is released or the deadline is reached. Returns 0 at once if the word is free or was changed by
 * another thread meanwhile, otherwise what fgi_park returns. */
__attribute__((noinline, cold)) static int fgi_word_park(uint32_t *word, const struct fgi_deadline *until)
{
	uint32_t found = fg_load_relaxed(word);

	if (found == 0)
		return 0;
	if (!(found & FGI_WORD_SLEEPERS) && fg_cas_relaxed(word, found, found | FGI_WORD_SLEEPERS) != found)
		return 0;
	return fgi_park(word, found | FGI_WORD_SLEEPERS, until);
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
