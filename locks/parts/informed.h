/* SPDX-License-Identifier: MIT */
/* What both informed spinlocks share (Teabe and others, "The lock holder and the lock waiter pre-emption problems:
 * nip them in the bud using informed spinlocks (I-Spinlock)", EuroSys'17, section 4, Fig. 5): a ticket lock at which a
 * thread draws a ticket only if it can be through before its slice ends.
 *
 *   capable  iff  end of the slice - now  >=  (tickets drawn and not yet served + 1) * csd      (equations 1 and 2)
 *
 * Whoever is not capable waits for its next slice, and then draws a ticket, capable or not (Fig. 5, line 39): so a
 * queue too long for any slice keeps nobody out for ever (I4). How it waits is all that the two forms differ in.
 *
 * In a guest the end is exact and comes from the hypervisor; here it is the monitor's forecast of when the scheduler
 * will look for another thread (locks/parts/slice_forecast.h). Two things it cannot know: a thread that wakes up and is preferred at
 * once, and how the virtual deadlines of the others will stand. And a guest's kernel cannot be preempted by another
 * thread of its virtual CPU in a section, nor sleep; a thread can.
 * Without a forecast (no monitor, or a kernel or thread that it cannot tell of) everybody is capable, and a waiter
 * yields after YIELD_TURNS: then it is a ticket lock that hands the CPU on (I7).
 *
 * Not as published: a stalled queue. Once a wake-up has taken the CPU from somebody with a ticket, all behind it spin
 * through their slices; and as each is served and draws another ticket at once, behind the others, that never ends. So
 * whoever has waited for STALL_TURNS says that the tickets drawn so far are stalled, and until those are served nobody
 * draws another. They are served, since each of their threads gets a slice.
 *
 *   next, serving, forks   as in locks/published/ticket.c
 *   stalled                the tickets before this one are; it means nothing outside of ]serving, next]
 *
 * I1, I5, memory: as locks/published/ticket.c. trylock ignores the slice: it may fail only if the lock is held. A timed wait
 * polls, and asks for room for itself. */
#ifndef FGI_LOCKS_INFORMED_H
#define FGI_LOCKS_INFORMED_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "locks/parts/slice_forecast.h"
#include "locks/parts/tickets.h"
#include "runtime/spin_budget.h"

struct fg_lock {
	uint32_t next;
	uint32_t serving;
	uint32_t forks;
	uint32_t stalled;
};

FGI_WANT_SLICE_FORECAST;

/* csd, what a section lasts at most: section 4.1 measures 2^12 cycles on average and takes 2^14, "6 us". (Fig. 5 has
 * 2^15.) Section 5 finds that the value is not delicate. */
#define CSD_NS 6000u

#define YIELD_TURNS 256u   /* some 10 us, as FGI_SPIN_UNMONITORED_NS */
#define STALL_TURNS 16384u /* some 0.5 ms: more than any queue of threads that run, less than a slice */

static inline void await_next_slice(uint64_t published, uint64_t end);

static inline void check_fork(struct fg_lock *l)
{
	if (!fgi_tickets_good(&l->forks))
		fgi_tickets_repair(&l->forks, &l->next, &l->serving, l->next != l->serving);
}

static inline bool is_stalled(const struct fg_lock *l)
{
	uint32_t serving = fg_load_relaxed(&l->serving);

	return fg_load_relaxed(&l->stalled) - serving - 1 < fg_load_relaxed(&l->next) - serving;
}

/* Lines 15 to 24: 0 if this thread is capable, otherwise the end of the slice that is too short. */
static inline uint64_t incapable_until(const struct fg_lock *l, uint64_t published)
{
	uint64_t now, end;
	uint32_t ahead;

	if (!published)
		return 0;
	now = fgi_now_ns(CLOCK_MONOTONIC);
	end = fgi_slice_end(published, now);
	ahead = fg_load_relaxed(&l->next) - fg_load_relaxed(&l->serving);
	return end && (is_stalled(l) || end < now + (uint64_t)(ahead + 1) * CSD_NS) ? end : 0;
}

/* Who waits with a ticket and knows of no end, because there is no monitor or it has died, must not burn its slice
 * while the thread before it wants the CPU. */
__attribute__((noinline, cold)) static void yield_if_uninformed(void)
{
	if (!fgi_monitor_alive(fgi_now_ns(CLOCK_MONOTONIC)) || !fgi_slice_published())
		sched_yield();
}

__attribute__((noinline)) static void await_capability(const struct fg_lock *l, uint64_t published, uint64_t end)
{
	do {
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
	for (uint32_t turn = 1; fg_load_acquire(&l->serving) != ticket; turn++) {
		fg_thread.spins++;
		fg_pause();
		if (fg_unlikely(turn % YIELD_TURNS == 0))
			yield_if_uninformed();
		if (fg_unlikely(turn == STALL_TURNS))
			fg_store_relaxed(&l->stalled, fg_load_relaxed(&l->next));
	}
	FGI_TICKET_SERVED();
}

/* The next ticket is served already iff the lock is free; so draw it only if it is still the next one. */
static inline bool fgi_trylock(struct fg_lock *l)
{
	uint32_t serving;

	check_fork(l);
	serving = fg_load_acquire(&l->serving);
	if (fg_load_relaxed(&l->next) != serving || fg_cas_acquire(&l->next, serving, serving + 1) != serving)
		return false;
	fgi_held_raise();
	return true;
}

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	struct fgi_spin_budget p = FGI_SPIN_BUDGET(clock, abs);

	for (;;) {
		uint64_t published = fgi_slice_published(), end = incapable_until(l, published);

		if (fg_unlikely(end))
			await_next_slice(published, end);
		if (fgi_trylock(l))
			return 0;
		if (fgi_deadline_reached(&p))
			return ETIMEDOUT;
		fg_thread.spins++;
		fg_pause();
	}
}

static inline void fgi_unlock(struct fg_lock *l)
{
	check_fork(l);
	fgi_drop_store32(&l->serving, l->serving + 1);
}

#endif
