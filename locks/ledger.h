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
 *   YIELDING  nobody parks, waiters offer their CPU instead. Best where other programs want the CPUs: a parked thread
 *             gives its share away. Tried only where a waiter that yielded has found that somebody wants its CPU.
 *
 * One table for all locks of the process, by address. A lock that finds its place taken by another that was busy lately
 * is GREEDY. Nothing but speed depends on what is in here, so races on it are harmless; `busy` keeps accounts whole. */
#ifndef FGI_LOCKS_LEDGER_H
#define FGI_LOCKS_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "abi/flexguard_abi.h"
#include "src/atomic.h"
#include "src/tune.h"

struct fgi_ledger {
	uint64_t lock;               /* whose it is */
	uint64_t from_ns;            /* the current sample: CLOCK_MONOTONIC, */
	uint64_t until_ns;           /* its end, */
	uint32_t ops;                /* and the lock's count at its beginning */
	uint32_t regime;             /* what rules it */
	uint32_t busy;               /* somebody is closing the sample */
	uint32_t samples;            /* taken so far */
	uint32_t wanted;             /* in how many further samples somebody else is believed to want the CPUs */
	uint32_t pace_ns;            /* time from one acquisition to the next, in the last sample; 0: not known */
	uint32_t rates[FGI_REGIMES]; /* acquisitions per ms, smoothed; 0: never tried */
	uint32_t rotated_us;         /* when an active thread last changed places with a parked one */
} __attribute__((aligned(FG_CACHE_LINE)));

#define FGI_LEDGERS 1024u
#define FGI_WANTED_SAMPLES 256u
#define FGI_COLD_NS                                                                                                    \
	4000u /* a lock taken less often than this gains nothing from a lease, and parked threads are called */

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

/* Parking or leasing must be worth it by this much before threads are kept from their CPUs: yielding is unfair. */
static inline bool fgi_much_better(uint32_t rate, uint32_t than)
{
	return (uint64_t)rate * 10 > (uint64_t)than * 11;
}

static enum fgi_regime fgi_next_regime(struct fgi_ledger *l)
{
	const uint32_t *rates = l->rates;
	enum fgi_regime best = rates[FGI_LEASED] > rates[FGI_GREEDY] ? FGI_LEASED : FGI_GREEDY;

	if (fgi_tune.regime != FGI_ANY_REGIME)
		return (enum fgi_regime)fgi_tune.regime;
	if (l->pace_ns > FGI_COLD_NS && !l->wanted)
		return FGI_GREEDY;
	if (l->wanted && fgi_much_better(rates[FGI_YIELDING], rates[best]))
		best = FGI_YIELDING;
	for (uint32_t other = 0; other < FGI_REGIMES; other++) {
		uint32_t every = rates[other] / 3 > rates[best] / 4 ? 16 : 64;

		if (other == best || (other == FGI_YIELDING && !l->wanted))
			continue;
		if (rates[other] == 0 || l->samples % every == other)
			return (enum fgi_regime)other;
	}
	return best;
}

/* Closes a sample of `ns`, long enough to be one, in which the lock was acquired `ops` times. */
static void fgi_ledger_judge(struct fgi_ledger *l, uint32_t ops, uint64_t ns)
{
	uint64_t rate = (uint64_t)ops * 1000000u / ns + 1;
	uint32_t *old = &l->rates[l->regime];

	*old = *old ? (uint32_t)((*old + rate) / 2) : (uint32_t)rate;
	l->pace_ns = ops ? (uint32_t)(ns / ops) + 1 : (uint32_t)ns;
	l->samples++;
	if (l->wanted)
		l->wanted--;
}

static void fgi_ledger_begin(struct fgi_ledger *l, uintptr_t lock)
{
	l->regime = fgi_tune.regime == FGI_ANY_REGIME ? FGI_GREEDY : (uint32_t)fgi_tune.regime;
	l->samples = l->wanted = l->pace_ns = l->rotated_us = 0;
	for (int i = 0; i < FGI_REGIMES; i++)
		l->rates[i] = 0;
	fg_store_relaxed(&l->lock, lock);
}

/* A sample may be over: judges it and decides what rules the next. Returns whether the lock has just turned to
 * YIELDING, and its parked threads are to be told. A sample that nobody closed in time says nothing. */
__attribute__((noinline)) static bool fgi_ledger_close(struct fgi_ledger *l, const void *lock, uint32_t ops,
						       uint64_t now)
{
	bool turned = false;

	if (fg_cas_acquire(&l->busy, 0, 1) != 0)
		return false;
	if (l->lock != (uintptr_t)lock && now > l->until_ns + 8 * fgi_tune.sample_ns) {
		fgi_ledger_begin(l, (uintptr_t)lock);
		l->from_ns = now;
		l->ops = ops;
		l->until_ns = now + fgi_tune.sample_ns;
	}
	if (l->lock == (uintptr_t)lock && now >= l->until_ns) {
		uint32_t old = l->regime, next;

		if (now - l->until_ns < fgi_tune.sample_ns)
			fgi_ledger_judge(l, ops - l->ops, now - l->from_ns);
		next = fgi_next_regime(l);
		fg_store_relaxed(&l->regime, next);
		l->from_ns = now;
		l->ops = ops;
		fg_store_relaxed(&l->until_ns, now + fgi_tune.sample_ns * (l->wanted ? 4 : 1));
		turned = next == FGI_YIELDING && old != FGI_YIELDING;
	}
	fg_store_release(&l->busy, 0);
	return turned;
}

/* Somebody else wants the CPU that a waiter has offered. */
static inline void fgi_ledger_wanted(const void *lock)
{
	fg_store_relaxed(&fgi_ledger(lock)->wanted, FGI_WANTED_SAMPLES);
}

#endif
