/* SPDX-License-Identifier: MIT */
/* Watches every sleep of a lock on a futex, so that a test sees a lost wake-up: a moment in which all threads that use
 * the lock sleep in it. Then nobody holds the lock and nobody is left to wake them.
 *
 * The linker puts these functions between the lock and runtime/futex.h (--wrap; see CMakeLists.txt). They count:
 *
 *   at work   threads that use the lock at present; the test says so
 *   asleep    of these, the ones in a futex wait. A thread that has been woken is not asleep, even if it has not run
 *             yet: the waker counts it out
 *   timed     of the waits, the ones that end by themselves at a caller's deadline, and naps. While there is one,
 *             nothing is lost yet
 *
 * A lock that bounds its sleeps hides a lost wake-up behind its clock. So a clock that ends a sleep while all others
 * are asleep ends a stall; it lasted from when the last of them fell asleep, or left. `longest_ns` is the longest.
 * A lock without such a clock hangs: sleeps_stuck() tells. */
#ifndef FG_TESTS_SLEEPS_H
#define FG_TESTS_SLEEPS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/clock.h"
#include "runtime/futex.h"
#include "runtime/spin_budget.h"
#include "tests/check.h"

static struct {
	int at_work, asleep, timed;
	int waking;          /* threads that are in a wake-up and have not counted its effect */
	uint64_t events;     /* changes of the above */
	uint64_t settled_ns; /* when a thread last fell asleep or left */
	uint64_t longest_ns;
	uint64_t sleeps, wakes, clock_ends;
} sleeps;

static void sleeps_changed(void)
{
	__atomic_add_fetch(&sleeps.events, 1, __ATOMIC_SEQ_CST);
}

static void sleeps_raise(uint64_t *most, uint64_t ns)
{
	uint64_t found = __atomic_load_n(most, __ATOMIC_SEQ_CST);

	while (ns > found && !__atomic_compare_exchange_n(most, &found, ns, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
}

static bool sleeps_all(int asleep)
{
	return asleep >= __atomic_load_n(&sleeps.at_work, __ATOMIC_SEQ_CST) &&
	       __atomic_load_n(&sleeps.timed, __ATOMIC_SEQ_CST) == 0 &&
	       __atomic_load_n(&sleeps.waking, __ATOMIC_SEQ_CST) == 0;
}

static inline void sleeps_begin_work(int threads)
{
	__atomic_add_fetch(&sleeps.at_work, threads, __ATOMIC_SEQ_CST);
	sleeps_changed();
}

/* The caller has left the lock. If all others sleep, they are stalled from now on. */
static inline void sleeps_end_work(void)
{
	sleeps_raise(&sleeps.settled_ns, fgi_now_ns(CLOCK_MONOTONIC));
	__atomic_sub_fetch(&sleeps.at_work, 1, __ATOMIC_SEQ_CST);
	sleeps_changed();
}

/* For a supervisor that looks now and then: have all threads slept since the look before? */
static inline bool sleeps_stuck(uint64_t *events)
{
	uint64_t before = *events;

	*events = __atomic_load_n(&sleeps.events, __ATOMIC_SEQ_CST);
	return *events == before && __atomic_load_n(&sleeps.at_work, __ATOMIC_SEQ_CST) > 0 &&
	       sleeps_all(__atomic_load_n(&sleeps.asleep, __ATOMIC_SEQ_CST));
}

/* A clock has ended the caller's sleep, which was to last until `until_ns`. The caller still counts as asleep. A stall
 * never counts as longer than the caller's own sleep, even if another thread got no CPU meanwhile. */
static void sleeps_ended_by_clock(uint64_t until_ns)
{
	uint64_t since = __atomic_load_n(&sleeps.settled_ns, __ATOMIC_SEQ_CST);

	__atomic_add_fetch(&sleeps.clock_ends, 1, __ATOMIC_RELAXED);
	if (sleeps_all(__atomic_load_n(&sleeps.asleep, __ATOMIC_SEQ_CST)) && until_ns > since)
		sleeps_raise(&sleeps.longest_ns, until_ns - since);
}

static void sleeps_fall_asleep(bool timed)
{
	sleeps_raise(&sleeps.settled_ns, fgi_now_ns(CLOCK_MONOTONIC));
	__atomic_add_fetch(&sleeps.timed, timed, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&sleeps.asleep, 1, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&sleeps.sleeps, 1, __ATOMIC_RELAXED);
	sleeps_changed();
}

/* `result`: what ended the sleep. A waker has counted out the thread that it woke. */
static void sleeps_awake(bool timed, int result)
{
	if (result != 0)
		__atomic_sub_fetch(&sleeps.asleep, 1, __ATOMIC_SEQ_CST);
	__atomic_sub_fetch(&sleeps.timed, timed, __ATOMIC_SEQ_CST);
	sleeps_changed();
}

int __real_fgi_futex_wait_as(uint32_t *word, uint32_t expected, clockid_t clock, const struct timespec *abs,
			     uint32_t as);
int __real_fgi_futex_wake_as(uint32_t *word, int n, uint32_t as);

int __wrap_fgi_futex_wait_as(uint32_t *word, uint32_t expected, clockid_t clock, const struct timespec *abs,
			     uint32_t as)
{
	int result;

	sleeps_fall_asleep(abs != NULL);
	result = __real_fgi_futex_wait_as(word, expected, clock, abs, as);
	sleeps_awake(abs != NULL, result);
	return result;
}

int __wrap_fgi_futex_wait(uint32_t *word, uint32_t expected, clockid_t clock, const struct timespec *abs)
{
	return __wrap_fgi_futex_wait_as(word, expected, clock, abs, FGI_ANYBODY);
}

/* A sleep that a lock bounds by a clock of its own. In the test a caller's deadline is bound enough. */
int __wrap_fgi_sleep_until(uint32_t *word, uint32_t expected, const struct fgi_deadline *p, uint64_t until_ns,
			   uint32_t as)
{
	struct timespec until = fgi_timespec(until_ns);
	int result;

	if (p->time)
		return __wrap_fgi_futex_wait_as(word, expected, p->clock, p->time, as);
	sleeps_fall_asleep(false);
	result = __real_fgi_futex_wait_as(word, expected, CLOCK_MONOTONIC, &until, as);
	if (result == ETIMEDOUT)
		sleeps_ended_by_clock(until_ns);
	sleeps_awake(false, result);
	return result;
}

int __wrap_fgi_futex_wake_as(uint32_t *word, int n, uint32_t as)
{
	int woken;

	__atomic_add_fetch(&sleeps.waking, 1, __ATOMIC_SEQ_CST);
	woken = __real_fgi_futex_wake_as(word, n, as);
	__atomic_sub_fetch(&sleeps.asleep, woken, __ATOMIC_SEQ_CST);
	__atomic_sub_fetch(&sleeps.waking, 1, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&sleeps.wakes, (uint64_t)woken, __ATOMIC_RELAXED);
	sleeps_changed();
	return woken;
}

int __wrap_fgi_futex_wake(uint32_t *word, int n)
{
	return __wrap_fgi_futex_wake_as(word, n, FGI_ANYBODY);
}

#endif
