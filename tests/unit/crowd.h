/* SPDX-License-Identifier: MIT */
/* Does this lock still work? Asked of a default lock after something unusual has happened to it. */
#ifndef FG_TESTS_CROWD_H
#define FG_TESTS_CROWD_H

#include FGI_LOCK_FILE

#include <errno.h>
#include <sched.h>

#include "tests/check.h"
#include "tests/sections.h"

#define CROWD 4
#define CROWD_ROUNDS 3000
#define CROWD_NS 500000000ull /* after so long no round begins: on a busy machine each costs slices of others */

struct crowd {
	struct fg_lock *lock;
	uint64_t until_ns;
	uint64_t begun, ended; /* protected by it */
};

static inline struct timespec from_now(clockid_t clock, uint64_t us)
{
	return fgi_timespec(fgi_now_ns(clock) + us * 1000);
}

static inline bool crowd_enter(struct fg_lock *l, int round)
{
	struct timespec soon;

	switch (round % 8) {
	case 0:
		return fgi_trylock(l);
	case 1:
		soon = from_now(CLOCK_MONOTONIC, (uint64_t)round % 50);
		return fgi_timedlock(l, FGI_DEADLINE(CLOCK_MONOTONIC, &soon)) == 0;
	default:
		fgi_lock(l);
		return true;
	}
}

static inline void *crowd_member(void *argument)
{
	struct crowd *crowd = argument;
	uint64_t entered = 0;

	for (int round = 0; round < CROWD_ROUNDS && fgi_now_ns(CLOCK_MONOTONIC) < crowd->until_ns; round++) {
		if (!crowd_enter(crowd->lock, round))
			continue;
		CHECK(crowd->begun == crowd->ended, "two threads are in");
		crowd->begun++;
		if (round % 128 == 3)
			sched_yield();
		crowd->ended++;
		fgi_unlock(crowd->lock);
		entered++;
	}
	CHECK_SECTIONS(0);
	return (void *)(uintptr_t)entered;
}

/* No thread is in a call on the lock, or owns it. A thread that is left behind is a hang: the watchdog's. */
static inline void check_lock_works(struct fg_lock *l)
{
	struct crowd crowd = {.lock = l, .until_ns = fgi_now_ns(CLOCK_MONOTONIC) + CROWD_NS};
	pthread_t thread[CROWD];
	uint64_t entered = 0;

	for (int i = 0; i < CROWD; i++)
		thread[i] = check_thread(crowd_member, &crowd);
	for (int i = 0; i < CROWD; i++)
		entered += (uintptr_t)check_join(thread[i]);
	CHECK(entered == crowd.ended, "lost update: %lu of %lu", (unsigned long)crowd.ended, (unsigned long)entered);
	CHECK(is_free(l->word), "left locked: %#x", l->word);
	CHECK((fgi_waiters_here(l->waiters) & ~FGI_HOT) == fgi_waiters_none(), "a waiter is still counted: %#x",
	      l->waiters);
}

static inline void await_bits(const uint32_t *word, uint32_t bits)
{
	while ((fg_load_relaxed(word) & bits) != bits)
		sched_yield();
}

static inline uint32_t parked(const struct fg_lock *l)
{
	uint32_t waiters = fg_load_relaxed(&l->waiters);

	return fgi_clocked(waiters) + fgi_needy(waiters);
}

static inline void await_parked(const struct fg_lock *l, uint32_t number)
{
	while (parked(l) != number)
		sched_yield();
}

#endif
