/* SPDX-License-Identifier: MIT */
/* The pure blocking lock of section 5.1 (i): a futex and no spinning at all.
 *
 *   word              meaning
 *   0                 free
 *   tid               held by tid, nobody sleeps
 *   tid | SLEEPERS    held by tid, somebody may sleep on the word
 *
 * The word names its owner, so the monitor sees a holder by published intent (runtime/thread.h): `pending` points at the
 * word from before the instruction that takes it until after the one that releases it, and the word itself says whether
 * either has happened. No windows.
 *
 * I1  The word alone. I2  A waiter sleeps only on a word with SLEEPERS set; the release that clears it wakes one, and
 * a waiter that has slept takes the word with SLEEPERS set, so the next one is woken in turn.
 * I4  The futex queue is first come, first served; a running thread may take the free word before the one that was
 * woken, which is what the paper's lock does too (section 5.5). I5  by intent. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "runtime/futex.h"
#include "runtime/spin_budget.h"
#include "runtime/thread.h"

struct fg_lock {
	uint32_t word;
	uint32_t unused[3];
};

#define SLEEPERS 0x80000000u
_Static_assert((SLEEPERS & FG_OWNER_MASK) == 0, "the owner's bits are the owner's");

/* Takes the word that was found free. acquire: pairs with the release in fgi_unlock. */
static inline bool take(struct fg_lock *l, uint32_t as)
{
	fgi_intent_set(&l->word);
	if (fg_cas_acquire(&l->word, 0, as) == 0)
		return true;
	fgi_intent_clear(&l->word);
	return false;
}

static inline bool fgi_trylock(struct fg_lock *l)
{
	uint32_t self = fgi_self();

	return fg_load_relaxed(&l->word) == 0 && take(l, self);
}

__attribute__((noinline)) static int wait_for_word(struct fg_lock *l, const struct fgi_spin_budget *p)
{
	uint32_t mine = fgi_self() | SLEEPERS, word;
	int woken = 0;

	for (;;) {
		word = fg_load_relaxed(&l->word);
		if (word == 0) {
			if (take(l, mine))
				return 0;
			continue;
		}
		if (woken == ETIMEDOUT)
			return ETIMEDOUT;
		if (!(word & SLEEPERS) && fg_cas_relaxed(&l->word, word, word | SLEEPERS) != word)
			continue;
		woken = fgi_park(&l->word, word | SLEEPERS, p);
	}
}

static inline void fgi_lock(struct fg_lock *l)
{
	if (!fg_likely(fgi_trylock(l)))
		wait_for_word(l, &FGI_SPIN_BUDGET(CLOCK_MONOTONIC, NULL));
}

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	return fgi_trylock(l) ? 0 : wait_for_word(l, &FGI_SPIN_BUDGET(clock, abs));
}

static inline void fgi_unlock(struct fg_lock *l)
{
	uint32_t word;

	fgi_intent_restore(&l->word);
	word = fg_xchg_release(&l->word, 0);
	fgi_intent_clear(&l->word);
	if (fg_unlikely(word & SLEEPERS))
		fgi_futex_wake(&l->word, 1);
}
