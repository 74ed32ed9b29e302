/* SPDX-License-Identifier: MIT */
/* Is the lock hot? Then it is handed over per lease and not per section: docs/design/default-lock.md, Hot locks. A
 * thread that finds the lock taken measures the time from one acquisition to the next, and remembers it for the hot
 * lock and for the one that is not. What it remembers is of the lock that it last found taken. */
#ifndef FGI_DEFAULT_PACE_H
#define FGI_DEFAULT_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "abi/flexguard_abi.h"
#include "locks/default/waiters.h"
#include "runtime/atomic.h"

#define FGI_HOT_NS 600u       /* no lock is hot that is acquired less often */
#define FGI_SAMPLE_NS 4000u   /* so long a measurement takes at least, */
#define FGI_STALE_NS 1000000u /* and at most: in a longer one threads were preempted, or thought of something else */

/* In the thread block. */
struct fgi_pace {
	uint64_t lock;      /* the lock that the thread last found taken */
	uint32_t since;     /* when the measurement began: CLOCK_MONOTONIC in ns modulo 2^32, */
	uint32_t ops;       /* the lock's count then, */
	uint16_t period[2]; /* what was measured, in ns: of the lock when it is not hot, and when it is; 0: not known */
	uint8_t hot;        /* whether it was hot when this measurement began */
	uint8_t in_vain;    /* waits that have spun in vain lately, of whatever lock (flexguard.c) */
} __attribute__((may_alias));
_Static_assert(sizeof(struct fgi_pace) <= sizeof(fg_thread.lock_private), "must fit into the thread block");

static inline struct fgi_pace *fgi_pace(void)
{
	return (struct fgi_pace *)(void *)fg_thread.lock_private;
}

/* Is it time to forget a measurement? For 16 us in 33 ms of a lock that is not hot, for 131 us of one that is. */
static inline bool fgi_pace_again(uint64_t now, bool hot)
{
	return (now & ((1u << 25) - 1)) < (hot ? 1u << 17 : 1u << 14);
}

/* Above 0 if the last comparisons in this process were for hot locks, below 0 if against: that depends most on how far
 * the CPUs are apart, which is the same for all locks. */
static int32_t fgi_hot_pays;

static void fgi_pace_learn(bool pays)
{
	int32_t sum = fg_load_relaxed(&fgi_hot_pays) + (pays ? 1 : -1);

	if (sum >= -4 && sum <= 4)
		fg_store_relaxed(&fgi_hot_pays, sum);
}

/* What was measured before, and now. A longer time counts for less: a thread may have been preempted meanwhile. */
static uint32_t fgi_pace_mean(uint32_t before, uint32_t period)
{
	if (!before)
		return period;
	if (period < before)
		return (before + period) / 2;
	return before + (period < 2 * before ? period - before : before) / 4;
}

/* One measurement of `ns` in which the lock was acquired `ops` times. Returns whether the lock should be hot. While the
 * other kind's time is not known, a lock becomes hot unless hot locks have lost lately, and stays hot only if they have
 * paid; and the other kind is tried when it is time to. */
static bool fgi_pace_judge(struct fgi_pace *p, uint32_t ns, uint32_t ops, bool hot, uint64_t now)
{
	uint32_t period = ns / ops < UINT16_MAX ? ns / ops + 1 : UINT16_MAX, other;
	bool again = fgi_pace_again(now, hot);

	period = fgi_pace_mean(p->period[hot], period);
	p->period[hot] = (uint16_t)period;
	if (again)
		p->period[!hot] = 0;
	other = p->period[!hot];
	if (!other && !again)
		return fg_load_relaxed(&fgi_hot_pays) + !hot > 0 && period < FGI_HOT_NS;
	if (other * 9 >= period * 8) { /* the other is not faster by more than the noise */
		if (period * 9 < other * 8)
			fgi_pace_learn(hot);
		return hot;
	}
	if (other)
		fgi_pace_learn(!hot);
	return !hot && period < FGI_HOT_NS;
}

/* For a thread that finds the lock taken. */
static void fgi_pace_measure(const void *lock, const uint32_t *ops_of, uint32_t *waiters, uint64_t now)
{
	struct fgi_pace *p = fgi_pace();
	uint32_t seen = fg_load_relaxed(waiters), ns = (uint32_t)now - p->since, ops = fg_load_relaxed(ops_of) - p->ops;
	bool hot = fgi_hot(seen);

	if (p->lock != (uintptr_t)lock || ops > ns) { /* another one, perhaps at the same place */
		p->period[0] = p->period[1] = 0;
	} else if (p->hot == hot && ops) {
		if (ns < FGI_SAMPLE_NS)
			return;
		if (ns >= FGI_STALE_NS && ns / ops >= FGI_HOT_NS && p->period[hot] < FGI_HOT_NS)
			p->period[hot] = 0;
		if (ns < FGI_STALE_NS && fgi_pace_judge(p, ns, ops, hot, now) != hot) {
			uint32_t here = fgi_waiters_here(seen);

			hot = (fg_cas_relaxed(waiters, seen, here ^ FGI_HOT) == seen) ^ hot;
		}
	}
	p->lock = (uintptr_t)lock;
	p->since = (uint32_t)now;
	p->ops = fg_load_relaxed(ops_of);
	p->hot = hot;
}

/* Has this thread measured that the lock, where it is not hot, is acquired so often that it could be? */
static inline bool fgi_pace_quick(const void *lock)
{
	const struct fgi_pace *p = fgi_pace();

	return p->lock == (uintptr_t)lock && p->period[0] && p->period[0] < FGI_HOT_NS;
}

#endif
