/* SPDX-License-Identifier: MIT */
/* The mutex for shared memory: one word, the shared futex on its lower half, and the advice about its owner.
 *
 * The word          means
 *   0               free; no thread sleeps, but those that an unlock has woken or that will look by their own clock
 *   handle          the thread of that handle (flexguard/advice.h) has it; the same of sleepers
 *   handle | ASLEEP it has it, and other threads may sleep: the unlock wakes one
 *
 * 0 -> handle             lock, trylock, timedlock of a thread that has not slept in this call
 * 0 -> handle | ASLEEP    the same of one that has slept: others may sleep yet
 * handle -> | ASLEEP      by a waiter, before it sleeps; or as it leaves without the mutex
 * any of a handle -> 0    unlock by that thread
 * a dead thread's -> handle | ASLEEP   recover
 *
 * I1 one compare-and-swap takes all 64 bits. I2 a sleeper implies ASLEEP in the word, or a thread that was woken, or
 * that has slept, and sets it again before it sleeps or as it leaves; or, where that thread was killed, the end of its
 * sleep by its own clock. I4 not kept: a thread that comes may take the mutex before one that sleeps. I5 the
 * lower half, which has the owner's tid, is published as intent. I7 without a monitor the advice is to spin and sleep.
 *
 * Waiting: as fg_wait_advice says, but that a sleep ends by the unlock. No list of waiters, no state but the word. A
 * sleep ends by its own clock after FGI_SHARED_LOOK_NS; each further one in a row lasts twice as long, LOOK_DOUBLINGS
 * times: many waiters of an owner that keeps the mutex for long leave the CPUs to others. */
#include "flexguard/mutex_shared.h"

#include <errno.h>
#include <sys/syscall.h>

#include "advice/advice.h"
#include "runtime/clock.h"
#include "runtime/futex.h"
#include "runtime/sandbox.h"
#include "runtime/spin.h"
#include "runtime/spin_budget.h"

#define ASLEEP 0x80000000ull /* no tid has this bit */
#ifndef FGI_SHARED_LOOK_NS   /* a test makes it long: no sleep may need it while all processes live */
#define FGI_SHARED_LOOK_NS 10000000u
#endif
#define LOOK_DOUBLINGS 7

FG_ABI_ASSERT(sizeof(struct fg_mutex_shared) == 8);
FG_ABI_ASSERT((FG_OWNER_MASK & ASLEEP) == 0);
FG_ABI_ASSERT(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__); /* lower_half */

static uint32_t *lower_half(struct fg_mutex_shared *m)
{
	return (uint32_t *)(void *)&m->opaque;
}

/* From `expected`, with the flag or without. acquire: pairs with the release in fg_mutex_shared_unlock. */
static bool take_from(struct fg_mutex_shared *m, uint64_t expected, uint64_t flag)
{
	fg_handle me = fgi_own_handle();

	fgi_intent_set(lower_half(m));
	if (fg_cas_acquire(&m->opaque, expected, me | flag) == expected)
		return true;
	fgi_intent_clear(lower_half(m));
	return false;
}

/* One call that waits. */
struct wait {
	struct fg_wait asks;
	uint32_t looks; /* sleeps in a row that ended by their own clock */
	struct fgi_spin_budget spinning;
};

/* Until the unlock, the deadline, or its own clock. The word is as it was found, with ASLEEP. Who was not woken has no
 * news: it sleeps again at once. */
static void sleep_on(struct fg_mutex_shared *m, uint64_t found, struct wait *w)
{
	uint64_t now = fgi_now_ns(CLOCK_MONOTONIC), look = (uint64_t)FGI_SHARED_LOOK_NS << w->looks, left = look;

	if (w->spinning.deadline.time) {
		left = fgi_remaining_ns(&w->spinning.deadline);
		if (w->spinning.deadline.clock == CLOCK_REALTIME && look > FGI_REALTIME_LOOK_NS)
			look = FGI_REALTIME_LOOK_NS; /* that clock may be set */
	}
	(void)fgi_monitor_alive(now);
	fg_thread.parks++;
	if (fgi_futex_wait_shared(lower_half(m), (uint32_t)(found | ASLEEP), now + (left < look ? left : look)) ==
	    ETIMEDOUT) {
		w->looks += w->looks < LOOK_DOUBLINGS;
	} else {
		w->looks = 0;
		w->asks.looks = 0;
	}
	w->spinning.spins = 0; /* the deadline is looked at next time */
}

/* A waiter that has slept gives up: it may have been woken in place of another, or have taken the flag's place. */
static void leave(struct fg_mutex_shared *m)
{
	uint64_t found = fg_load_relaxed(&m->opaque), seen;

	while (found && !(found & ASLEEP)) {
		seen = fg_cas_relaxed(&m->opaque, found, found | ASLEEP);
		if (seen == found)
			return;
		found = seen;
	}
	if (!found)
		fgi_futex_wake_shared(lower_half(m), 1);
}

/* One step of a wait for a mutex that was found taken. Returns whether this thread has slept. */
static bool wait_once(struct fg_mutex_shared *m, uint64_t found, struct wait *w)
{
	struct fg_advice a;

	w->asks.whom = found & ~ASLEEP;
	a = fgi_advice(&w->asks);
	w->asks.looks++;
	if (a.action == FG_WAIT_SPIN) {
		fgi_spin_once();
		return false;
	}
	if (a.action == FG_WAIT_YIELD) {
		fgi_spin_yield();
		return false;
	}
	if (!(found & ASLEEP) && fg_cas_relaxed(&m->opaque, found, found | ASLEEP) != found)
		return false;
	sleep_on(m, found, w);
	return true;
}

__attribute__((noinline)) static int lock_slow(struct fg_mutex_shared *m, struct fgi_deadline until)
{
	struct wait w = {.spinning = FGI_SPIN_BUDGET(until)};
	uint64_t flag = 0, found;

	for (;;) {
		found = fg_load_relaxed(&m->opaque);
		if (!found && take_from(m, 0, flag))
			return 0;
		if (!found)
			continue;
		if (fgi_deadline_reached(&w.spinning)) {
			if (flag)
				leave(m);
			return ETIMEDOUT;
		}
		if (wait_once(m, found, &w))
			flag = ASLEEP;
	}
}

void fg_mutex_shared_lock(struct fg_mutex_shared *m)
{
	if (fg_unlikely(!take_from(m, 0, 0)))
		(void)lock_slow(m, FGI_NEVER);
}

int fg_mutex_shared_trylock(struct fg_mutex_shared *m)
{
	return fg_load_relaxed(&m->opaque) == 0 && take_from(m, 0, 0) ? 0 : EBUSY;
}

int fg_mutex_shared_timedlock(struct fg_mutex_shared *m, clockid_t clock, const struct timespec *abs)
{
	struct fgi_deadline until = FGI_DEADLINE(clock, abs);

	if (!fgi_is_deadline(until))
		return EINVAL;
	return take_from(m, 0, 0) ? 0 : lock_slow(m, until);
}

int fg_mutex_shared_unlock(struct fg_mutex_shared *m)
{
	uint64_t found = fg_load_relaxed(&m->opaque);

	if (fg_unlikely((found & ~ASLEEP) != fgi_own_handle()))
		return EPERM;
	fgi_intent_restore(lower_half(m));
	found = fg_xchg_release(&m->opaque, 0); /* pairs with the acquire in take_from */
	fgi_intent_clear(lower_half(m));
	if (fg_unlikely(found & ASLEEP))
		fgi_futex_wake_shared(lower_half(m), 1);
	return 0;
}

int fg_mutex_shared_recover(struct fg_mutex_shared *m)
{
	uint64_t found = fg_load_relaxed(&m->opaque);

	if (!found || fgi_optional_call(SYS_tkill, fgi_handle_tid(found), 0, 0) != -ESRCH)
		return EBUSY;
	return take_from(m, found, ASLEEP) ? 0 : EBUSY;
}
