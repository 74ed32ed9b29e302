/* SPDX-License-Identifier: MIT */
/* What the informed spinlocks share (Teabe and others, "The lock holder and the lock waiter pre-emption problems: nip
 * them in the bud using informed spinlocks (I-Spinlock)", EuroSys'17, section 4, Fig. 5): a ticket lock at which a
 * thread draws a ticket only if it can be through before its time slice ends.
 *
 *   capable  iff  end of the slice - now  >=  (tickets drawn and not yet served + 1) * csd      (equations 1 and 2)
 *
 * A thread that is not capable waits for its next time slice, then draws a ticket whether it is capable or not (Fig. 5,
 * line 39): so a queue too long for any slice keeps no thread out for ever (I4). The two forms (HVM and PV) differ only
 * in how it waits for the next slice.
 *
 * As published, a queue can stall: once a wake-up has taken the CPU from a thread with a ticket, all behind it spin
 * through their slices, and each draws another ticket at once after it was served: a convoy
 * (docs/results/slice-forecast.md). A file that defines INFORMED_STALL_SPINS has a rule against it, which the paper
 * does not have: a waiter that has waited for so many spins declares the tickets drawn so far stalled, and no thread
 * draws another until those are served. They are served: each of their threads gets a slice.
 *
 * Deviations from the paper:
 * - In a guest the end of the slice is exact and comes from the hypervisor. Here it is the monitor's forecast of when
 *   the scheduler will look for another thread (lock/slice_forecast.h). The forecast does not foresee a thread
 *   that wakes up and is preferred at once. And a guest's kernel cannot sleep in a section; a thread can.
 * - Without a forecast (no monitor, or a kernel or thread for which it has none) every thread is capable, and a waiter
 *   yields after YIELD_SPINS: then this is a ticket lock that hands the CPU on (I7).
 * - The time is read by clock_gettime (some 10 ns more), where Fig. 5 reads the cycle counter.
 * - trylock ignores the slice, since it may fail only if the lock is held. A timed wait polls, as if alone in the
 *   queue.
 *
 *   next, serving, forks   as in locks/published/ticket.inc.h
 *   stalled                with INFORMED_STALL_SPINS: the tickets before this one are stalled; it means nothing outside
 *                          of ]serving, next]. Without: 0
 *
 * I1, I5, memory: as locks/published/ticket.inc.h. */
#ifndef FGI_PARTS_INFORMED_H
#define FGI_PARTS_INFORMED_H

#include "lock/slice_forecast.h"
#include "locks/parts/tickets.h"

struct fg_lock {
	uint32_t next;
	uint32_t serving;
	uint32_t forks;
	uint32_t stalled;
};

FGI_WANT_SLICE_FORECAST;

/* csd, what a section lasts at most: section 4.1 measures 2^12 cycles on average and takes 2^14, "6 us". (Fig. 5 has
 * 2^15.) It says that the value is larger than the longest section measured and works well on other machine types; it
 * compares it with no other fixed value. lab/variants/informed-csd.inc.h has other values. */
#ifndef CSD_NS
#define CSD_NS 6000u
#endif

#define YIELD_SPINS 256u /* ours: some 10 us, as FGI_SPIN_UNMONITORED_NS */

#ifndef INFORMED_STALL_SPINS
#define INFORMED_STALL_SPINS 0u /* as published: no rule */
#endif

static inline void await_next_slice(uint64_t published, uint64_t end);

static inline void check_fork(struct fg_lock *l)
{
	if (!fgi_tickets_good(&l->forks))
		fgi_tickets_repair(&l->forks, &l->next, &l->serving, l->next != l->serving);
}

static inline bool is_stalled(const struct fg_lock *l)
{
	uint32_t serving;

	if (!INFORMED_STALL_SPINS)
		return false;
	serving = fg_load_acquire(&l->serving); /* acquire: before the others, which would else seem to lie before it */
	return fg_load_relaxed(&l->stalled) - serving - 1 < fg_load_relaxed(&l->next) - serving;
}

static inline uint32_t drawn_and_not_served(const struct fg_lock *l)
{
	uint32_t serving = fg_load_acquire(&l->serving); /* likewise */

	return fg_load_relaxed(&l->next) - serving;
}

/* Lines 15 to 24: 0 if this thread is capable, otherwise the end of the slice that is too short. */
static inline uint64_t incapable_until(const struct fg_lock *l, uint64_t published)
{
	uint64_t now, end, before;

	if (!published)
		return 0;
	now = fgi_now_ns(CLOCK_MONOTONIC);
	end = fgi_slice_end(published, now);
	before = drawn_and_not_served(l);
	return end && (is_stalled(l) || end < now + (before + 1) * CSD_NS) ? end : 0;
}

/* A waiter with a ticket and without a forecast, because there is no monitor or it has died, must not burn its slice
 * while the thread before it wants the CPU. */
__attribute__((noinline, cold)) static void yield_if_uninformed(void)
{
	if (!fgi_monitor_alive(fgi_now_ns(CLOCK_MONOTONIC)) || !fgi_slice_published())
		fgi_spin_yield();
}

__attribute__((noinline)) static void await_capability(const struct fg_lock *l, uint64_t published, uint64_t end)
{
	do { /* once, as published */
		await_next_slice(published, end);
		published = fgi_slice_published();
	} while (is_stalled(l) && (end = incapable_until(l, published)));
}

static inline void fgi_lock(struct fg_lock *l)
{
	uint64_t published = fgi_slice_published(), end;
	uint32_t ticket;

	check_fork(l);
	end = incapable_until(l, published);
	if (fg_unlikely(end))
		await_capability(l, published, end);
	ticket = fg_fetch_add_relaxed(&l->next, 1);
	FGI_TICKET_DRAWN();
	/* acquire: pairs with the holder's release of `serving` */
	for (uint32_t spin = 1; fg_load_acquire(&l->serving) != ticket; spin++) {
		fgi_spin_once();
		if (fg_unlikely(spin % YIELD_SPINS == 0))
			yield_if_uninformed();
		if (fg_unlikely(INFORMED_STALL_SPINS && spin == INFORMED_STALL_SPINS))
			fg_store_relaxed(&l->stalled, fg_load_relaxed(&l->next));
	}
	FGI_TICKET_SERVED();
}

static inline bool fgi_trylock(struct fg_lock *l)
{
	check_fork(l);
	return fgi_tickets_try(&l->next, &l->serving);
}

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	struct fgi_spin_budget p = FGI_SPIN_BUDGET(clock, abs);

	for (;;) {
		uint64_t published = fgi_slice_published(), end = incapable_until(l, published);
		uint64_t left = fg_unlikely(end) ? fgi_remaining_ns(&p) : 0, deadline;

		if (left) {
			deadline = fgi_now_ns(CLOCK_MONOTONIC) + left;
			await_next_slice(published, end < deadline ? end : deadline);
		}
		if (fgi_trylock(l))
			return 0;
		if (fgi_deadline_reached(&p))
			return ETIMEDOUT;
		fgi_spin_once();
	}
}

static inline void fgi_unlock(struct fg_lock *l)
{
	check_fork(l);
	fgi_drop_store32(&l->serving, l->serving + 1);
}

#endif
