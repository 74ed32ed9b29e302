/* SPDX-License-Identifier: MIT */
/* A waiting room: one seat beside the lock, and a gate before which all others are parked.
 *
 *   seats             meaning
 *   SEAT              somebody watches the lock (the alpha), or is called to
 *   SEAT | CALLED     somebody is called: the first from the gate that comes takes CALLED away and is the alpha
 *   COMING            somebody has been woken at the gate and has not run yet: who calls need not wake another
 *   KNOCK             somebody at the gate has waited for longer than its place in the line promised
 *   AHEAD             somebody was called, came too late, and is the first to be called again. (Not who knocks: there
 *                     is one such place, and who has not waited for long knocks soonest)
 *   GENERATION        of the process that this is about: in the child of a fork the others in the room do not exist
 *   n * ONE           threads at the gate
 *
 *   gate              futex of the parked, first come first served; counts the calls, so that a thread that was about
 *                     to sleep when a call came does not
 *
 * Whoever comes and finds the seat free sits down. If others are parked and their turn has come it calls the first of
 * them instead, and parks: it was about to wait anyway, so the wake-up costs no owner anything. Before it parks it
 * yields its CPU. If the one it called has not come then, the scheduler has queued it behind somebody who runs, for
 * lack of an idle CPU: so the caller takes the seat back, and the other finds it free, or a call, when it runs. If not,
 * it has not lost its place: it is AHEAD.
 * And if nobody comes who could call? Whoever should may be queued behind the owner, and another CPU idle. So who has
 * the lease calls, too, between two of its sections, if a turn is due and the seat is still free.
 *
 * I2  A thread at the gate is called by the alpha when that leaves, by the next that comes, or by who has the lease.
 * Where none need happen (the lock is so busy that the next comes at once, so the alpha just leaves) its sleep has a
 * bound: its place in the line times what a turn takes, four times as long each time it finds the seat taken. So if all
 * others went away and none comes back, a parked thread waits for at most four times as long as it has waited, and no
 * longer than 4 s.
 * I4  After the first such wake-up it knocks, and the next who comes or leaves calls, whatever else is due. Its caller
 *     is told, and may find that nobody wants the lock. */
#ifndef FGI_LOCKS_ROOM_H
#define FGI_LOCKS_ROOM_H

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/futex.h"
#include "runtime/spin_budget.h"
#include "runtime/thread.h"

struct fgi_room {
	uint32_t seats;
	uint32_t gate;
};

/* Where a thread stands that is parked. */
struct fgi_place {
	uint32_t gate;       /* as it was when the thread last looked at the seats */
	bool ahead;          /* it is the one that is AHEAD */
	bool turn;           /* as alpha it was parked before, or has called who did not come */
	uint64_t until_ns;   /* how long it sleeps, */
	uint64_t allowed_ns; /* and how long that was when it began */
};

enum {
	FGI_SEAT = 1,
	FGI_CALLED = 2,
	FGI_KNOCK = 4,
	FGI_COMING = 8,
	FGI_GENERATION = 0xff << 4,
	FGI_AHEAD = 1 << 12,
	FGI_ONE = 1 << 13,
};

/* Who sleeps at the gate as what. */
#define FGI_IN_LINE 1u
#define FGI_BEFORE_IT 2u

#define FGI_LONGEST_PARK_NS 4000000000u
#define FGI_TURNS 5u /* a place in the line takes at most so many turns: then its thread looks what is the matter */

/* What the room says here and now: what was before a fork says nothing. fgi_forks counts in twos. */
static inline uint32_t fgi_room_now(uint32_t seats)
{
	uint32_t generation = (fg_load_relaxed(&fgi_forks) << 3) & FGI_GENERATION;

	return (seats & FGI_GENERATION) == generation ? seats : generation;
}

static inline uint32_t fgi_room_calling(uint32_t seats)
{
	return (seats | FGI_SEAT | FGI_CALLED) & ~(uint32_t)FGI_KNOCK;
}

/* The alpha leaves. With `call`, or if somebody has knocked, the first of the parked is to be the next alpha. Returns
 * whether the caller is to wake one at the gate, now or when it releases the lock. acq_rel: pairs with the same of
 * those who sit down or park. */
static inline bool fgi_room_leave(struct fgi_room *r, bool call)
{
	uint32_t found, seats, seen = fg_load_relaxed(&r->seats);
	bool calls;

	do {
		found = seen;
		seats = fgi_room_now(found);
		calls = seats >= FGI_ONE && (call || (seats & FGI_KNOCK));
		seen = fg_cas_acq_rel(&r->seats, found, calls ? fgi_room_calling(seats) : seats & ~(uint32_t)FGI_SEAT);
	} while (seen != found);
	if (!calls)
		return false;
	fg_fetch_add_release(&r->gate, 1);
	return !(seats & FGI_COMING);
}

/* Returns whether somebody slept there. */
static inline bool fgi_room_wake(struct fgi_room *r)
{
	return fgi_futex_wake_as(&r->gate, 1, FGI_BEFORE_IT) > 0 || fgi_futex_wake_as(&r->gate, 1, FGI_IN_LINE) > 0;
}

/* Calls the first of the parked if nobody has the seat. Not for the owner of the lock: it wakes at once, and yields its
 * CPU to whom the scheduler has queued behind it. */
static inline void fgi_room_call(struct fgi_room *r)
{
	uint32_t found, seats, seen = fg_load_relaxed(&r->seats);

	do {
		found = seen;
		seats = fgi_room_now(found);
		if ((seats & FGI_SEAT) || seats < FGI_ONE)
			return;
		seen = fg_cas_acq_rel(&r->seats, found, fgi_room_calling(seats));
	} while (seen != found);
	fg_fetch_add_release(&r->gate, 1);
	if (!(seats & FGI_COMING))
		fgi_room_wake(r);
	sched_yield();
}

/* What a thread at the gate makes of the seats. `slept`: what its sleep returned. `ahead`: whether it is AHEAD, before
 * and after. Returns 0 to be the alpha, ETIMEDOUT, or EAGAIN: to sleep again.
 * Whatever ended its sleep it takes COMING away: perhaps its clock was faster than a wake-up that then found nobody
 * asleep. If not, and somebody else is still coming, the next call wakes one too many. */
static inline int fgi_room_look(uint32_t *seats, const struct fgi_spin_budget *p, int slept, bool *ahead)
{
	uint32_t found = *ahead ? *seats & ~(uint32_t)FGI_AHEAD : *seats;

	if ((found & FGI_CALLED) || !(found & FGI_SEAT)) {
		*seats = ((found | FGI_SEAT) & ~(uint32_t)(FGI_CALLED | FGI_COMING)) - FGI_ONE;
		return 0;
	}
	found &= ~(uint32_t)FGI_COMING;
	if (fgi_past_deadline(p)) {
		*seats = found - FGI_ONE;
		return ETIMEDOUT;
	}
	if (slept == ETIMEDOUT)
		found |= FGI_KNOCK;
	*ahead = (*ahead || slept == 0) && !(found & FGI_AHEAD);
	*seats = *ahead ? found | FGI_AHEAD : found;
	return EAGAIN;
}

static inline void fgi_room_renew_deadline(struct fgi_place *at, uint64_t allowed_ns)
{
	at->allowed_ns = allowed_ns < FGI_LONGEST_PARK_NS ? allowed_ns : FGI_LONGEST_PARK_NS;
	at->until_ns = fgi_now_ns(CLOCK_MONOTONIC) + at->allowed_ns;
}

/* At the gate, counted in the room. Returns 0 as alpha, ETIMEDOUT at the deadline, EAGAIN if its clock woke it and it
 * has knocked: it is still at the gate, with new patience. Who was woken and came too late goes on with what is left of
 * the old: so it knocks in time, whoever is faster. */
static int fgi_room_park(struct fgi_room *r, struct fgi_place *at, const struct fgi_spin_budget *p)
{
	int slept, verdict;

	do {
		uint32_t found, seats, seen;
		bool was = at->ahead;

		fg_thread.parks++;
		slept = fgi_sleep_until(&r->gate, at->gate, p, at->until_ns, was ? FGI_BEFORE_IT : FGI_IN_LINE);
		at->gate = fg_load_acquire(&r->gate); /* before the seats: a call after them has changed it */
		seen = fg_load_relaxed(&r->seats);
		do {
			found = seats = seen;
			at->ahead = was;
			verdict = fgi_room_look(&seats, p, slept, &at->ahead);
			seen = seats == found ? found : fg_cas_acq_rel(&r->seats, found, seats);
		} while (seen != found);
	} while (verdict == EAGAIN && slept != ETIMEDOUT);
	if (verdict == EAGAIN)
		fgi_room_renew_deadline(at, at->allowed_ns * 4);
	return verdict;
}

/* Leaves the gate, but not as alpha. If somebody is called it may have been this one, so it calls the next, if there is
 * one. Returns whether the caller is to wake one at the gate, now or when it releases the lock. */
static bool fgi_room_quit(struct fgi_room *r, const struct fgi_place *at)
{
	uint32_t found, seats, seen = fg_load_relaxed(&r->seats);

	do {
		found = seen;
		seats = (at->ahead ? found & ~(uint32_t)FGI_AHEAD : found) - FGI_ONE;
		if ((seats & FGI_CALLED) && seats < FGI_ONE)
			seats &= ~(uint32_t)(FGI_SEAT | FGI_CALLED | FGI_COMING);
		seen = fg_cas_acq_rel(&r->seats, found, seats);
	} while (seen != found);
	if (!(seats & FGI_CALLED))
		return false;
	fg_fetch_add_release(&r->gate, 1);
	return !(seats & FGI_COMING);
}

/* Who has called, and been counted, offers its CPU. Returns whether nobody has come: then it is the alpha after all.
 * Where it has `missed` whom it would have woken it takes COMING away. So only this caller may set that, not an alpha
 * that leaves: its wake-up comes after its last look at the room, and it cannot tell. */
static inline bool fgi_room_take_back(struct fgi_room *r, bool missed)
{
	uint32_t found, seats, seen;

	sched_yield();
	seen = fg_load_relaxed(&r->seats);
	do {
		found = seen;
		seats = missed ? found & ~(uint32_t)FGI_COMING : found;
		if (found & FGI_CALLED)
			seats = (seats & ~(uint32_t)FGI_CALLED) - FGI_ONE;
		seen = seats == found ? found : fg_cas_acq_rel(&r->seats, found, seats);
	} while (seen != found);
	return found & FGI_CALLED;
}

/* Comes in. Returns whether it is the alpha; if not it is counted, and is to be parked. `at` says where it stands.
 * `turn_ns` is about how long each of those who are parked already will keep the others waiting; `rotate`: if anybody
 * is, the first is to go first. */
static bool fgi_room_enter(struct fgi_room *r, uint64_t turn_ns, bool rotate, struct fgi_place *at)
{
	uint32_t gate = fg_load_acquire(&r->gate), found, seats, seen = fg_load_relaxed(&r->seats);
	bool calls;

	do {
		uint32_t next;

		found = seen;
		seats = fgi_room_now(found);
		calls = !(seats & FGI_SEAT) && seats >= FGI_ONE && (rotate || (seats & FGI_KNOCK));
		if (calls)
			next = (fgi_room_calling(seats) | FGI_COMING) + FGI_ONE;
		else if (seats & FGI_SEAT)
			next = seats + FGI_ONE;
		else
			next = seats | FGI_SEAT;
		seen = fg_cas_acq_rel(&r->seats, found, next);
	} while (seen != found);
	at->ahead = at->turn = false;
	if (!calls && !(seats & FGI_SEAT))
		return true;
	at->turn = true;
	if (calls) {
		gate = fg_fetch_add_release(&r->gate, 1) + 1;
		if (fgi_room_take_back(r, !(seats & FGI_COMING) && !fgi_room_wake(r)))
			return true;
	}
	at->gate = gate;
	fgi_room_renew_deadline(at, (seats / FGI_ONE + 2) * FGI_TURNS * turn_ns);
	return false;
}

#endif
