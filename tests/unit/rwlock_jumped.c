/* SPDX-License-Identifier: MIT */
/* A signal handler jumps out of a call that waits for a read-write lock. No bucket keeps the waiter's node
 * (sync/parked.h, P5), it does not keep its turn, nor a lock that was handed to it while it waited. The thread that has
 * the lock goes on while the other sleeps: it does nothing, and the deadline passes; or it unlocks. */
#include "tests/unit/jump.h"

#include "runtime/arch/arch.h"
#include "sync/awake.h"
#include "sync/handover.h"

static bool stay_not(bool (*ready)(const void *), const void *waiter);
static bool past_deadline(const struct fgi_deadline *until);
static int sleep_meanwhile(struct fgi_parked *p, enum fgi_parked_state as, const struct fgi_deadline *until,
			   uint64_t until_ns);

#define fgi_awake_stay(awake, ready, argument, until) stay_not(ready, argument)
#define fg_pause() ((void)0)
#define fgi_past_deadline past_deadline
#define fgi_parked_sleep sleep_meanwhile
#include "sync/rwlock.c"
#include "tests/unit/rwlock_word.h"

static struct fgi_rwlock l;
static volatile bool slept;
static bool writes, unlocks, due;

/* There are no pauses. */
static bool stay_not(bool (*ready)(const void *), const void *waiter)
{
	if (!unlocks) /* otherwise from the sleep on */
		trap();
	return ready(waiter);
}

static bool past_deadline(const struct fgi_deadline *until)
{
	(void)until;
	return slept && !unlocks;
}

static int sleep_meanwhile(struct fgi_parked *p, enum fgi_parked_state as, const struct fgi_deadline *until,
			   uint64_t until_ns)
{
	(void)as, (void)until, (void)until_ns;
	is_another = true;
	if (due)
		p->since_ns = 0;
	if (unlocks)
		fgi_rw_release(&l, FGI_RW_OWNER);
	slept = true;
	is_another = false;
	trap();
	return ETIMEDOUT;
}

static void prepare(void)
{
	l = (struct fgi_rwlock){.word = OTHER};
	slept = false;
	fg_thread.held = 0;
	fg_thread.pending = 0;
	fgi_reading = 0;
}

static void wait_for_it(void)
{
	if (writes)
		fgi_rwlock_write_slow(&l, FGI_NEVER);
	else
		fgi_rwlock_read_slow(&l, FGI_NEVER);
}

static void check(int instructions)
{
	bool taken = slept && unlocks && (l.word & FGI_RW_HELD);

	if (!covered)
		return;
	CHECK(!(l.word & FGI_RW_WOKEN), "it keeps its turn after %d instructions", instructions);
	CHECK(taken || l.word == (slept && unlocks ? 0 : OTHER), "%lx after %d instructions", l.word, instructions);
	CHECK(taken || fg_thread.pending == 0, "it still means to write after %d instructions", instructions);
}

int main(void)
{
	check_watchdog(500);
	for (int i = 0; i < 6; i++) {
		writes = i % 2;
		unlocks = i >= 2;
		due = i >= 4;
		jump_everywhere(prepare, wait_for_it, check);
	}
	return 0;
}
