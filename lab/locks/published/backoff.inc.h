/* SPDX-License-Identifier: MIT */
/* The blocking back-off lock (section 2.2, after Anderson 1990): try; on failure sleep until a timeout expires, then
 * try again. No spinning and no wake-up.
 *
 *   word   0 free, 1 held
 *
 * Waiting policy: a sleep of FIRST_NS, twice as long after each failure up to LAST_NS, each shortened at random by up
 * to a half, so that threads that failed together do not come back together. A release wakes no thread: the lock may be
 * free while all that want it sleep. That is the price of a release without a system call. The timeout is that of a
 * futex on the word, which no thread ever wakes: the call is no cancellation point, and returns at once if the lock was
 * released just before. Linux adds its timer slack (50 us for normal threads).
 * I1  By the compare-and-swap. I2  There is no wake-up to lose. I4  Not kept: the longer a thread has waited, the less
 *     often it tries. I5  Exactly: taken and released inside windows.
 * Memory: the word; nothing per thread. */
#include "lock/lock.h"

struct fg_lock {
	uint32_t word;
	uint32_t unused[3];
};

/* Ours; section 2.2 gives no numbers. The first sleep is shorter than the timer slack, so the timer decides; the last
 * one is a fraction of a time slice. */
#define FIRST_NS 10000u
#ifndef LAST_NS
#define LAST_NS 1000000u
#endif

static inline bool fgi_trylock(struct fg_lock *l)
{
	return fg_load_relaxed(&l->word) == 0 && fgi_take_cas32(&l->word, 1) == 0;
}

/* Sleeps for `ns`, but not past the deadline. */
static inline void sleep_for(struct fg_lock *l, uint32_t ns, const struct fgi_deadline *until)
{
	struct timespec slept = fgi_timespec(fgi_now_ns(until->clock) + ns);
	const struct timespec *end = until->time;

	if (!end || end->tv_sec > slept.tv_sec || (end->tv_sec == slept.tv_sec && end->tv_nsec > slept.tv_nsec))
		end = &slept;
	fg_thread.parks++;
	fgi_futex_wait(&l->word, 1, until->clock, end);
}

__attribute__((noinline)) static int back_off(struct fg_lock *l, const struct fgi_deadline *until)
{
	/* The stack and the instant differ between threads. */
	uint64_t random = (uint64_t)(uintptr_t)until ^ fg_cycles();
	uint32_t ns = FIRST_NS;

	while (!fgi_trylock(l)) {
		if (fgi_past_deadline(until))
			return ETIMEDOUT;
		random = random * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX */
		sleep_for(l, ns - (uint32_t)(random >> 33) % (ns / 2), until);
		ns = ns < LAST_NS / 2 ? 2 * ns : LAST_NS;
	}
	return 0;
}

static inline void fgi_lock(struct fg_lock *l)
{
	if (!fg_likely(fgi_trylock(l)))
		back_off(l, &FGI_NEVER);
}

static inline int fgi_timedlock(struct fg_lock *l, struct fgi_deadline until)
{
	return fgi_trylock(l) ? 0 : back_off(l, &until);
}

static inline void fgi_unlock(struct fg_lock *l)
{
	fgi_drop_store32(&l->word, 0);
}
