/* SPDX-License-Identifier: MIT */
/* Is the lock hot? Then it is handed over per lease and not per section: docs/design/default-lock.md, Hot locks. The
 * threads that find a lock taken measure together, at most once in FGI_SAMPLE_NS, the time between acquisitions. Now
 * and then, as a trial, the lock becomes hot, or ceases to be. It stays so if it is then faster by an eighth: by more
 * than the noise. The measurements stand in a table of this process, and are hints: two locks may share a place, and a
 * thread may read one while another writes it. */
#ifndef FGI_DEFAULT_PACE_H
#define FGI_DEFAULT_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "abi/flexguard_abi.h"
#include "lock/default/numbers.h"
#include "lock/default/waiters.h"
#include "runtime/atomic.h"

#define FGI_SAMPLE_NS 4000u   /* so long a measurement takes at least, */
#define FGI_STALE_NS 1000000u /* and at most: in a longer one threads were preempted, or thought of something else */
#define FGI_TRIAL_NS 128000u  /* so long a trial, and the time before it, take at least */
#define FGI_RETRY_NS 2000000u /* so long after a change the next trial begins; twice as long after each lost one, */
#define FGI_RETRIES 16u       /* up to so many times as long */

struct fgi_pace {
	uint64_t lock;      /* the address of the lock that is measured, of those that share this place */
	uint64_t began;     /* the measurement: fgi_pace_begin */
	uint32_t changed;   /* since when the lock is hot, or is not, or is measured: in ns modulo 2^32 */
	uint32_t trial;     /* whether a trial is under way */
	uint32_t retry;     /* after how many times FGI_RETRY_NS the next begins */
	uint32_t period[2]; /* when not hot, and when hot: in ns times FGI_PACE_UNIT; 0: not known */
} __attribute__((aligned(FG_CACHE_LINE)));

#define FGI_PACES 1024u
#define FGI_PACE_UNIT 256u
#define FGI_HOT_PERIOD (FGI_HOT_NS * FGI_PACE_UNIT)

static struct fgi_pace fgi_paces[FGI_PACES];

static inline struct fgi_pace *fgi_pace_of(const void *lock)
{
	return &fgi_paces[(uintptr_t)lock / 16 * 0x9e3779b97f4a7c15u >> 54];
}

/* When a measurement began, in ns modulo 2^43, the lock's count then, modulo 2^20, and whether the lock was hot. */
static inline uint64_t fgi_pace_begin(uint64_t now, uint32_t ops, bool hot)
{
	return now << 21 | (uint64_t)ops % (1u << 20) << 1 | hot;
}

/* Nothing is known of the lock. */
static void fgi_pace_forget(struct fgi_pace *p, uint64_t now)
{
	fg_store_relaxed(&p->period[0], 0);
	fg_store_relaxed(&p->period[1], 0);
	fg_store_relaxed(&p->trial, 0);
	fg_store_relaxed(&p->retry, 1);
	fg_store_relaxed(&p->changed, (uint32_t)now);
}

/* The mean over `span`, at most FGI_STALE_NS, in the last `ns` of which the period was this. A longer one counts for no
 * more than twice the mean: a thread may have been preempted meanwhile. */
static uint32_t fgi_pace_mean(uint32_t mean, uint32_t period, uint32_t ns, uint32_t span)
{
	if (!mean)
		return period;
	if (period > 2 * mean)
		period = 2 * mean;
	if (span > FGI_STALE_NS)
		span = FGI_STALE_NS;
	if (span < ns)
		span = ns;
	return (uint32_t)(((uint64_t)mean * (span - ns) + (uint64_t)period * ns) / span);
}

/* Takes a measurement of `ns` in which the lock was acquired `ops` times, `age` after it became as hot as it is.
 * Returns whether it should be hot. */
static bool fgi_pace_judge(struct fgi_pace *p, uint32_t ns, uint32_t ops, bool hot, uint32_t age)
{
	uint32_t period = (uint32_t)((uint64_t)ns * FGI_PACE_UNIT / ops), other = fg_load_relaxed(&p->period[!hot]);

	period = fgi_pace_mean(fg_load_relaxed(&p->period[hot]), period, ns, age);
	fg_store_relaxed(&p->period[hot], period);
	if (period >= FGI_HOT_PERIOD) {
		if (!hot)
			fg_store_relaxed(&p->trial, 0);
		return false;
	}
	if (age < FGI_TRIAL_NS)
		return hot;
	if (!fg_load_relaxed(&p->trial))
		return other && age < fg_load_relaxed(&p->retry) * FGI_RETRY_NS ? hot : !hot;
	if (period * 9 >= other * 8)
		return !hot;
	fg_store_relaxed(&p->trial, 0);
	fg_store_relaxed(&p->retry, 1);
	return hot;
}

/* The lock became hot, or ceased to be: a trial begins, was lost, or there is none. */
static void fgi_pace_change(struct fgi_pace *p, bool was_hot, uint64_t now)
{
	uint32_t before = fg_load_relaxed(&p->period[was_hot]);
	uint32_t retry = fg_load_relaxed(&p->retry);
	bool lost = fg_load_relaxed(&p->trial), trial = !lost && before && before < FGI_HOT_PERIOD;

	if (trial)
		fg_store_relaxed(&p->period[!was_hot], 0);
	if (lost && retry < FGI_RETRIES)
		fg_store_relaxed(&p->retry, retry * 2);
	fg_store_relaxed(&p->trial, trial);
	fg_store_relaxed(&p->changed, (uint32_t)now);
}

/* For a thread that finds the lock taken. `leases`: there is a monitor, so that the lock may be hot. The thread that
 * ends a measurement, and begins the next, judges. Until it has lasted FGI_SAMPLE_NS nobody reads the lock's own cache
 * line. The first after a change says nothing: the waiters have yet to follow. */
static void fgi_pace_measure(const void *lock, const uint32_t *ops_of, uint32_t *waiters, uint64_t now, bool leases)
{
	struct fgi_pace *p = fgi_pace_of(lock);
	uint64_t began = fg_load_relaxed(&p->began), begins;
	int64_t ns = (int64_t)((now << 21) - (began >> 21 << 21)) >> 21;
	uint32_t seen, count, ops, changed;
	bool hot, wanted;

	if (ns < FGI_SAMPLE_NS && ns > -INT32_MAX) /* below 0: preempted since it read the clock */
		return;
	seen = fg_load_relaxed(waiters);
	hot = wanted = fgi_hot(seen);
	count = fg_load_relaxed(ops_of);
	ops = (count - (uint32_t)(began >> 1)) % (1u << 20);
	changed = fg_load_relaxed(&p->changed);
	begins = fgi_pace_begin(now, count, hot);
	if (fg_load_relaxed(&p->lock) != (uintptr_t)lock || ops > ns) { /* another, perhaps at the same address */
		fg_store_relaxed(&p->began, begins);
		fg_store_relaxed(&p->lock, (uintptr_t)lock);
		fgi_pace_forget(p, now);
		wanted = false;
	} else if ((!ops && ns < FGI_STALE_NS) || fg_cas_relaxed(&p->began, began, begins) != began) {
		return;
	} else if (ns >= FGI_STALE_NS && ns >= FGI_HOT_NS * (int64_t)ops) {
		fgi_pace_forget(p, now);
		wanted = false;
	} else if (ns < FGI_STALE_NS && began % 2 == hot && (uint32_t)(began >> 21) != changed) {
		wanted = fgi_pace_judge(p, (uint32_t)ns, ops, hot, (uint32_t)now - changed) && leases;
	}
	if (wanted != hot && fg_cas_relaxed(waiters, seen, fgi_waiters_here(seen) ^ FGI_HOT) == seen) {
		fgi_pace_change(p, hot, now);
		fg_store_relaxed(&p->began, fgi_pace_begin(now, count, wanted));
	}
}

/* The time from one acquisition of the lock to the next, as it was last measured: in ns, 0 if that is not known. */
static inline uint32_t fgi_pace(const void *lock, bool hot)
{
	const struct fgi_pace *p = fgi_pace_of(lock);

	return fg_load_relaxed(&p->lock) == (uintptr_t)lock ? fg_load_relaxed(&p->period[hot]) / FGI_PACE_UNIT : 0;
}

#endif
