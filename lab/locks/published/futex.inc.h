/* SPDX-License-Identifier: MIT */
/* The pure blocking lock of section 5.1 (i): a futex and no spinning at all.
 *
 *   word      locks/parts/owner_word.h: 0 free, or the owner's tid, with SLEEPERS if a thread may sleep on the word
 *
 * Waiting policy: sleep at once.
 * I1, I2, I5  locks/parts/owner_word.h; every waiter takes the word with SLEEPERS set, so that its release wakes the
 * next. I4  The futex's queue is first come, first served. A running thread may take the free word before the thread
 * that was woken, as in the paper's lock (section 5.5).
 * Memory: the word; nothing per thread. */
#include "locks/parts/owner_word.h"

struct fg_lock {
	uint32_t word;
	uint32_t unused[3];
};

static inline bool fgi_trylock(struct fg_lock *l)
{
	return fgi_word_try(&l->word, 0);
}

__attribute__((noinline)) static int wait_for_word(struct fg_lock *l, const struct fgi_spin_budget *p)
{
	int woken = 0;

	while (!fgi_word_try(&l->word, FGI_WORD_SLEEPERS)) {
		if (woken == ETIMEDOUT)
			return ETIMEDOUT;
		woken = fgi_word_park(&l->word, p);
	}
	return 0;
}

static inline void fgi_lock(struct fg_lock *l)
{
	if (!fg_likely(fgi_trylock(l)))
		wait_for_word(l, &FGI_NO_DEADLINE);
}

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	return fgi_trylock(l) ? 0 : wait_for_word(l, &FGI_SPIN_BUDGET(clock, abs));
}

static inline void fgi_unlock(struct fg_lock *l)
{
	fgi_word_drop(&l->word);
}
