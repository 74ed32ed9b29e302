/* SPDX-License-Identifier: MIT */
/* A signal handler jumps out of a wait at a condition variable. No bucket keeps the waiter's node (sync/parked.h, P5),
 * and the thread comes with the mutex held, unless it was about to take it again. */
#include "tests/unit/jump.h"

#include "sync/cond.c"

static struct fgi_cond c;
static struct fgi_due due;
static volatile bool held;
static bool signals;  /* the wait ends by a signal, otherwise by its deadline */
static bool recorded; /* the mutex has records */

static int unlock(void *mutex)
{
	held = false;
	is_another = true;
	if (signals)
		fgi_cond_signal(&c);
	is_another = false;
	return mutex ? 0 : EINVAL;
}

static int lock(void *mutex)
{
	CHECK(!held, "it waits for itself");
	held = true;
	return mutex ? 0 : EINVAL;
}

static struct fgi_due *due_if_held(void *mutex)
{
	return held && mutex ? &due : NULL;
}

static bool holds(void *mutex)
{
	return held && mutex;
}

static void prepare(void)
{
	held = true;
}

static void wait_late(void)
{
	static const struct fgi_cond_mutexes with = {unlock, lock, due_if_held, false, holds},
					     without = {unlock, lock, NULL, false, holds};
	static const struct timespec past;

	trap();
	fgi_cond_wait(&c, &due, recorded ? &with : &without, FGI_DEADLINE(CLOCK_MONOTONIC, &past));
}

static void check(int instructions)
{
	CHECK(held || !covered, "without the mutex after %d instructions", instructions);
}

int main(void)
{
	check_watchdog(500);
	for (int way = 0; way < 4; way++) {
		signals = way & 1;
		recorded = way & 2;
		jump_everywhere(prepare, wait_late, check);
	}
	return 0;
}
