/* SPDX-License-Identifier: MIT */
/* Is the lock hot? Then it is handed over per lease and not per section: docs/design/default-lock.md, Hot locks. The
 * threads that find a lock taken measure together, over windows of FGI_TURN_NS, the time between acquisitions. Now and
 * then the lock becomes hot, or ceases to be, for a window at least. It is hot afterwards if it is then faster by an
 * eighth: by more than the noise. The measurements stand in a table of this process, and are hints: two locks may share
 * a place, and a thread may read one while another writes it. */
#ifndef FGI_DEFAULT_PACE_H
#define FGI_DEFAULT_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "abi/flexguard_abi.h"
#include "lock/default/numbers.h"
#include "lock/default/waiters.h"
#include "runtime/atomic.h"

struct fgi_pace {
	uint64_t lock;      /* the address of the lock that is measured, of those that share this place */
	uint64_t began;     /* the measurement: fgi_pace_begin */
	uint32_t changed;   /* since when the lock is hot, or is not: in ns modulo 2^32 */
	uint32_t retry;     /* after how many LONG_WAITs the next trial begins */
	uint32_t period[2]; /* when not hot, and when hot: in ns; 0: not known */
} __attribute__((aligned(FG_CACHE_LINE)));

#define FGI_PACES 1024u

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

/* Takes a measurement of `ns` in which the lock was acquired `ops` times. `trial`: it began as the lock became hot, or
 * ceased to be, to see which is faster; otherwise that was `age` ago. Returns whether the lock should be hot. */
static bool fgi_pace_judge(struct fgi_pace *p, uint32_t ns, uint32_t ops, bool hot, bool trial, uint32_t age)
{
	uint32_t period = ns / ops, other = fg_load_relaxed(&p->period[!hot]), retry = fg_load_relaxed(&p->retry);
	uint32_t mean = fg_load_relaxed(&p->period[hot]);
	bool slow;

	if (!trial && mean)
		period = (mean * (FGI_MANY - 1) + period) / FGI_MANY;
	slow = period >= FGI_HOT_NS;
	fg_store_relaxed(&p->period[hot], period);
	if (!trial)
		return !slow && (other && age < retry * FGI_LONG_WAIT_NS ? hot : !hot);
	if (!slow && period * (FGI_MANY + 1) < other * FGI_MANY) {
		fg_store_relaxed(&p->retry, FGI_FEW);
		return hot;
	}
	if (retry < FGI_FEW * FGI_MANY)
		fg_store_relaxed(&p->retry, 2 * retry + FGI_FEW);
	return !slow && !hot;
}

/* For a thread that finds the lock taken. `leases`: there is a monitor, so that the lock may be hot. The thread that
 * ends a measurement, and begins the next, judges. Until it has lasted FGI_TURN_NS nobody reads the lock's own cache
 * line. */
static void fgi_pace_measure(const void *lock, const uint32_t *ops_of, uint32_t *waiters, uint64_t now, bool leases)
{
	struct fgi_pace *p = fgi_pace_of(lock);
	uint64_t began = fg_load_relaxed(&p->began);
	int64_t ns = (int64_t)((now << 21) - (began >> 21 << 21)) >> 21;
	uint32_t seen, found, count, ops, age;
	bool hot, trial = false, wanted = false;

	if (ns < FGI_TURN_NS && ns > -INT32_MAX) /* below 0: preempted since it read the clock */
		return;
	seen = fg_load_relaxed(waiters);
	hot = fgi_hot(seen);
	count = fg_load_relaxed(ops_of);
	ops = (count - (uint32_t)(began >> 1)) % (1u << 20);
	if (!ops && ns < FGI_LONG_WAIT_NS)
		return;
	if (fg_cas_relaxed(&p->began, began, fgi_pace_begin(now, count, hot)) != began)
		return;
	if (fg_load_relaxed(&p->lock) != (uintptr_t)lock || ops > ns) { /* another, perhaps at the same address */
		fg_store_relaxed(&p->lock, (uintptr_t)lock);
		fg_store_relaxed(&p->period[0], 0);
		fg_store_relaxed(&p->period[1], 0);
		fg_store_relaxed(&p->retry, FGI_FEW);
	} else if (ns >= FGI_LONG_WAIT_NS || began % 2 != hot) { /* says nothing, unless the lock was hardly acquired */
		wanted = leases && hot && ns < FGI_HOT_NS * (int64_t)ops;
	} else {
		age = (uint32_t)now - fg_load_relaxed(&p->changed);
		trial = age == ns;
		wanted = fgi_pace_judge(p, (uint32_t)ns, ops, hot, trial, age) && leases;
	}
	for (; wanted != fgi_hot(seen); seen = found) {
		found = fg_cas_relaxed(waiters, seen, fgi_waiters_here(seen) ^ FGI_HOT);
		if (found != seen)
			continue;
		fg_store_relaxed(&p->changed, (uint32_t)now - trial); /* a lost trial is no trial of the other */
		fg_store_relaxed(&p->began, fgi_pace_begin(now, count, wanted));
		return;
	}
}

/* The time from one acquisition of the lock to the next, as it was last measured: in ns, 0 if that is not known. */
static inline uint32_t fgi_pace(const void *lock, bool hot)
{
	const struct fgi_pace *p = fgi_pace_of(lock);

	return fg_load_relaxed(&p->lock) == (uintptr_t)lock ? fg_load_relaxed(&p->period[hot]) : 0;
}

#endif
