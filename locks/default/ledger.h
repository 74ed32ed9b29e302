/* SPDX-License-Identifier: MIT */
/* Which way of waiting pays for this lock, here and now: measured, not guessed.
 *
 * The lock counts its acquisitions beside its word. So any waiter can tell how many there were in the last sample under
 * the regime that ruled it, at no cost to the owners. The ledger tries each regime for a sample, stays with the best,
 * and tries the others again from time to time, the less often the worse they were: hosts move their virtual CPUs,
 * programs change phase, other programs come and go.
 *
 *   GREEDY    a waiter takes the lock as soon as it is free. Best where hand-overs are cheap or sections far apart.
 *   LEASED    the owner may come back for a lease, and the waiter watches from afar. Best where a hand-over costs more
 *             than a section and the way back to the next.
 *
 * One table for all locks of the process, by address. A lock that finds its place taken by another that was busy lately
 * is GREEDY. Nothing but speed depends on what is in here, so races on it are harmless; `busy` keeps accounts whole. */
#ifndef FGI_LOCKS_LEDGER_H
#define FGI_LOCKS_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "abi/flexguard_abi.h"
#include "locks/default/tune.h"
#include "runtime/atomic.h"
#include "runtime/thread.h"

struct fgi_ledger {
	uint64_t lock;               /* whose it is */
	uint64_t from_ns;            /* the current sample: CLOCK_MONOTONIC, */
	uint64_t until_ns;           /* its end, */
	uint32_t ops;                /* and the lock's count at its beginning */
	uint32_t regime;             /* what rules it */
	uint32_t busy;               /* somebody is closing the sample: which generation of forks, odd; 0: nobody */
	uint32_t samples;            /* taken so far */
	uint32_t pace_ns;            /* time from one acquisition to the next, in the last sample; 0: not known */
	uint32_t rates[FGI_REGIMES]; /* acquisitions per ms, smoothed; 0: never tried */
	uint32_t rotated_us;         /* when an active thread last changed places with a parked one */
} __attribute__((aligned(FG_CACHE_LINE)));

#define FGI_LEDGERS 1024u
#define FGI_STALE_SAMPLES 8u /* later than that nobody wanted the lock; until then they may all have been preempted */
/* A lock taken less often than this gains nothing from a lease, and its parked threads are called. */
#define FGI_COLD_NS 4000u

static struct fgi_ledger fgi_ledgers[FGI_LEDGERS];

static inline struct fgi_ledger *fgi_ledger(const void *lock)
{
	return &fgi_ledgers[((uintptr_t)lock >> 4) * 0x9e3779b97f4a7c15u >> 54];
}

static inline enum fgi_regime fgi_ledger_regime(const void *lock)
{
	const struct fgi_ledger *l = fgi_ledger(lock);

	return fg_likely(fg_load_relaxed(&l->lock) == (uintptr_t)lock) ? fg_load_relaxed(&l->regime) : FGI_GREEDY;
}

/* 0: not known */
static inline uint32_t fgi_ledger_pace_ns(const void *lock)
{
	const struct fgi_ledger *l = fgi_ledger(lock);

	return fg_load_relaxed(&l->lock) == (uintptr_t)lock ? fg_load_relaxed(&l->pace_ns) : 0;
}

/* Leasing is fairer and leaves the CPUs to others, so greed must be better by more than the noise. */
static enum fgi_regime fgi_next_regime(const struct fgi_ledger *l)
{
	bool greed = (uint64_t)l->rates[FGI_GREEDY] * 9 > (uint64_t)l->rates[FGI_LEASED] * 10;
	enum fgi_regime best = greed ? FGI_GREEDY : FGI_LEASED, other = greed ? FGI_LEASED : FGI_GREEDY;
	uint32_t every = l->rates[other] / 3 > l->rates[best] / 4 ? 32 : 64;

	if (fgi_tune.regime != FGI_ANY_REGIME)
		return (enum fgi_regime)fgi_tune.regime;
	if (fg_load_relaxed(&l->pace_ns) > FGI_COLD_NS)
		return FGI_GREEDY;
	return l->rates[other] == 0 || l->samples % every == 0 ? other : best;
}

/* A waiter has slept for so long because nothing moved. If that is longer than any sample that counts, this is the
 * pace. */
static inline void fgi_ledger_slept(const void *lock, uint64_t ns)
{
	struct fgi_ledger *l = fgi_ledger(lock);

	if (fg_load_relaxed(&l->lock) == (uintptr_t)lock && ns > FGI_STALE_SAMPLES * fgi_tune.sample_ns)
		fg_store_relaxed(&l->pace_ns, ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX);
}

/* Closes a sample of `ns`, long enough to be one, in which the lock was acquired `ops` times. */
static void fgi_ledger_judge(struct fgi_ledger *l, uint32_t ops, uint64_t ns)
{
	uint64_t rate = (uint64_t)ops * 1000000u / ns + 1;
	uint32_t *old = &l->rates[l->regime];

	*old = *old ? (uint32_t)((*old + rate) / 2) : (uint32_t)rate;
	fg_store_relaxed(&l->pace_ns, ops ? (uint32_t)(ns / ops) + 1 : (uint32_t)ns);
	l->samples++;
}

static void fgi_ledger_begin(struct fgi_ledger *l, uintptr_t lock)
{
	fg_store_relaxed(&l->regime, fgi_tune.regime == FGI_ANY_REGIME ? FGI_GREEDY : (uint32_t)fgi_tune.regime);
	fg_store_relaxed(&l->pace_ns, 0);
	fg_store_relaxed(&l->rotated_us, 0);
	l->samples = 0;
	for (int i = 0; i < FGI_REGIMES; i++)
		l->rates[i] = 0;
	fg_store_relaxed(&l->lock, lock);
}

/* A sample is over: judges it and decides what rules the next. One that nobody closed in time says nothing, nor does
 * one in which a new lock has come to be where the old one was, which shows by its count. */
static void fgi_ledger_settle(struct fgi_ledger *l, uintptr_t lock, uint32_t ops, uint64_t now)
{
	uint64_t stale_ns = l->until_ns + FGI_STALE_SAMPLES * fgi_tune.sample_ns;

	bool another = l->lock != lock, reborn = !another && (int32_t)(ops - l->ops) < 0;

	if (another ? now > stale_ns : reborn)
		fgi_ledger_begin(l, lock);
	else if (!another && now < stale_ns)
		fgi_ledger_judge(l, ops - l->ops, now - l->from_ns);
	if (l->lock != lock)
		return;
	fg_store_relaxed(&l->regime, fgi_next_regime(l));
	l->from_ns = now;
	l->ops = ops;
	fg_store_relaxed(&l->until_ns, now + fgi_tune.sample_ns);
}

/* Settles the sample if it is over, unless another thread of this process is at it. (One that was when a fork took
 * place is not in the child.) */
__attribute__((noinline)) static void fgi_ledger_close(struct fgi_ledger *l, const void *lock, uint32_t ops,
						       uint64_t now)
{
	uint32_t us = fg_load_relaxed(&fgi_forks) + 1, found = fg_load_relaxed(&l->busy);

	if (found == us || fg_cas_acquire(&l->busy, found, us) != found)
		return;
	if (now >= l->until_ns)
		fgi_ledger_settle(l, (uintptr_t)lock, ops, now);
	fg_store_release(&l->busy, 0);
}

#endif
