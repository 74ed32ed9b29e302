/* SPDX-License-Identifier: MIT */
/* Barriers (sync/barrier.h): the last thread of a phase that comes late, what others do between two of its steps, and
 * destroy. The test plays the others. */
#include "tests/unit/steps.h"

#include "runtime/futex.h"

static int wakes;

static int count_wake(uint32_t *word, int n)
{
	wakes++;
	return fgi_futex_wake(word, n);
}

#define fgi_futex_wake count_wake
#include "sync/barrier.c"
#undef fgi_futex_wake
#include "tests/check.h"

/* The phases behind it have ended meanwhile, and this one with them: it does not go back. */
static void a_late_end(void)
{
	struct fgi_barrier b = {.count = 1, .phase = 4};

	CHECK(fgi_barrier_wait(&b), "it is the last of its phase");
	CHECK_IS(b.phase, 4);
}

/* The count of phases begins anew after 2^31 of them. */
static void a_long_life(void)
{
	struct fgi_barrier b = {.count = 1, .phase = UINT32_MAX - 1, .arrived = INT32_MAX, .left = INT32_MAX};

	for (uint32_t i = 0; i < 3; i++) {
		CHECK(fgi_barrier_wait(&b), "it is the last of its phase");
		CHECK_IS(b.phase, 2 * i);
	}
	CHECK_IS(fgi_barrier_destroy(&b), 0);
}

/* Undefined by POSIX, and glibc waits for the thread. */
static void a_thread_waits(void)
{
	struct fgi_barrier b = {.count = 2, .arrived = 1};

	CHECK_IS(fgi_barrier_destroy(&b), EBUSY);
}

static struct fgi_barrier met;

static void goes_to_sleep(void)
{
	met.phase |= ASLEEP;
}

static void ends_a_later_phase(void)
{
	met.phase = 2 * PHASE;
}

static void ends_this_phase(void)
{
	met.phase = PHASE;
}

static void make(uint64_t arrived, void (*then)(void))
{
	met = (struct fgi_barrier){.count = 2, .arrived = arrived};
	watched = &met.phase;
	other = then;
	wakes = 0;
}

/* A thread falls asleep just before the last one ends the phase: it is woken. Or a later phase has ended. */
static void others_come_first(void)
{
	make(1, goes_to_sleep);
	CHECK(fgi_barrier_wait(&met), "it is the last of its phase");
	CHECK_IS(met.phase, PHASE);
	CHECK_IS(wakes, 1);
	make(1, ends_a_later_phase);
	CHECK(fgi_barrier_wait(&met), "it is the last of its phase");
	CHECK_IS(met.phase, 2 * PHASE);
	CHECK_IS(wakes, 0);
}

/* The phase ends just before a thread falls asleep. */
static void ends_before_the_sleep(void)
{
	make(0, ends_this_phase);
	CHECK(!fgi_barrier_wait(&met), "another was the last");
	CHECK_IS(met.phase, PHASE);
	CHECK_IS(fg_thread.parks, 0);
}

int main(void)
{
	check_watchdog(500);
	a_thread_waits();
	a_late_end();
	a_long_life();
	others_come_first();
	ends_before_the_sleep();
	return 0;
}
