/* SPDX-License-Identifier: MIT */
/* The pure blocking lock of section 5.1 (i): a futex and no spinning at all.
 *
 *   word   meaning
 *   0      FREE
 *   1      HELD: no thread sleeps on the word
 *   2      SLEEPERS: held, and a thread may sleep on the word
 *
 * Waiting policy: sleep at once.
 * I1  The word alone decides: the thread that finds FREE in its exchange has the lock. I2  A waiter sleeps only while
 * the word is SLEEPERS, which it has made it before. A release that finds SLEEPERS wakes one sleeper. A thread that may
 * have slept takes the word with SLEEPERS, so that its release wakes the next. I4  The futex's queue is first come,
 * first served. A running thread may take the free word before the thread that was woken, as in the paper's lock
 * (section 5.5). I5  Exactly: taken and released inside windows.
 * Memory: the word; nothing per thread. */
#include "lock/lock.h"

enum { FREE, HELD, SLEEPERS };

struct fg_lock {
	uint32_t word;
	uint32_t unused[3];
};

static inline bool fgi_trylock(struct fg_lock *l)
{
	return fg_load_relaxed(&l->word) == FREE && fgi_take_cas32(&l->word, HELD) == FREE;
}

__attribute__((noinline)) static int wait_for_word(struct fg_lock *l, const struct fgi_deadline *until)
{
	int woken = 0;

	while (fgi_take_xchg32(&l->word, SLEEPERS) != FREE) {
		if (woken == ETIMEDOUT)
			return ETIMEDOUT;
		woken = fgi_park(&l->word, SLEEPERS, until);
	}
	return 0;
}

static inline void fgi_lock(struct fg_lock *l)
{
	if (!fg_likely(fgi_trylock(l)))
		wait_for_word(l, &FGI_NEVER);
}

static inline int fgi_timedlock(struct fg_lock *l, struct fgi_deadline until)
{
	return fgi_trylock(l) ? 0 : wait_for_word(l, &until);
}

static inline void fgi_unlock(struct fg_lock *l)
{
	if (fg_unlikely(fgi_drop_xchg32(&l->word, FREE) == SLEEPERS))
		fgi_futex_wake(&l->word, 1);
}
