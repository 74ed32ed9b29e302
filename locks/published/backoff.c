/* SPDX-License-Identifier: MIT */
/* The blocking back-off lock (section 2.2, after Anderson 1990): try; if that fails block until a timeout expires, and
 * try again. No spinning and no wake-up.
 *
 *   word   0 free, 1 held
 *
 * Waiting policy: sleeps of FIRST_NS, twice as long after each failure up to LAST_NS, each shortened at random by up to
 * a half, so that threads that failed together do not come back together. A release tells nobody: the lock may lie free
 * while all who want it sleep, which is the price of a release without a system call.
 * The timeout is that of a futex on the word, which nobody ever wakes: so a lock released just before the sleep is
 * noticed, and the call is no cancellation point. The kernel adds its timer slack (50 us for normal threads).
 * I1  by the CAS. I2  no wake-up can be lost: there is none. I4  not kept: the longer a thread has waited, the less
 *     often it tries. I5  exactly: taken and released inside windows.
 * Memory: the word; nothing per thread. */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "runtime/arch/arch.h"
#include "runtime/futex.h"
#include "runtime/spin_budget.h"

struct fg_lock {
	uint32_t word;
	uint32_t unused[3];
};

/* Bounds from reason: the first sleep is what the timer can do anyway, the last one a fraction of a time slice. */
#define FIRST_NS 10000u
#define LAST_NS 1000000u

static inline bool fgi_trylock(struct fg_lock *l)
{
	return fg_load_relaxed(&l->word) == 0 && fgi_take_cas32(&l->word, 1) == 0;
}

/* Sleeps for `ns`, but not past the deadline. */
static inline void sleep_for(struct fg_lock *l, uint32_t ns, const struct fgi_spin_budget *p)
{
	struct timespec until = fgi_timespec(fgi_now_ns(p->clock) + ns);
	const struct timespec *end = p->deadline;

	if (!end || end->tv_sec > until.tv_sec || (end->tv_sec == until.tv_sec && end->tv_nsec > until.tv_nsec))
		end = &until;
	fg_thread.parks++;
	fgi_futex_wait(&l->word, 1, p->clock, end);
}

__attribute__((noinline)) static int back_off(struct fg_lock *l, const struct fgi_spin_budget *p)
{
	/* Any start will do that differs between threads: their stacks and the instant do. */
	uint64_t dice = (uint64_t)(uintptr_t)p ^ fg_cycles();
	uint32_t ns = FIRST_NS;

	while (!fgi_trylock(l)) {
		if (fgi_past_deadline(p))
			return ETIMEDOUT;
		dice = dice * 6364136223846793005u + 1442695040888963407u; /* Knuth's */
		sleep_for(l, ns - (uint32_t)(dice >> 33) % (ns / 2), p);
		ns = ns < LAST_NS / 2 ? 2 * ns : LAST_NS;
	}
	return 0;
}

static inline void fgi_lock(struct fg_lock *l)
{
	if (!fg_likely(fgi_trylock(l)))
		back_off(l, &FGI_SPIN_BUDGET(CLOCK_MONOTONIC, NULL));
}

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	return fgi_trylock(l) ? 0 : back_off(l, &FGI_SPIN_BUDGET(clock, abs));
}

static inline void fgi_unlock(struct fg_lock *l)
{
	fgi_drop_store32(&l->word, 0);
}
