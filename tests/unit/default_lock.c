/* SPDX-License-Identifier: MIT */
/* The default lock where it is unusual: flags without anybody behind them, waiters that give up in every role, and who
 * unlocks what another has locked. With argument `blind` where there is no membarrier. */
#include <signal.h>

#include "tests/unit/crowd.h"
#include "tests/unit/forbid.h"

#define LONG_NS 10000000000u
#define PATIENCE_US 30000u
#define LATE_US 3000000u /* by then neither LONG_NS nor the longest sleep at the gate is over */
_Static_assert(LATE_US * 1000ull < FGI_LONGEST_PARK_NS, "who sleeps by its clock is late");

static struct fg_lock lock;
static struct fgi_tune usual;

static void begin(void)
{
	lock = (struct fg_lock){.room.seats = fgi_room_now(0)};
	fgi_tune = usual;
}

/* Parked threads are not to wake up by their clock. */
static void begin_patiently(void)
{
	begin();
	fgi_tune.lease_ns = LONG_NS;
}

static void finish(void)
{
	fgi_tune = usual;
	check_lock_works(&lock);
}

/* ---- the word, alone -------------------------------------------------------------------------------------------- */

static void test_flags_without_owner(void)
{
	const uint32_t flags[] = {0, WAKE, DEMAND, WAKE | DEMAND};
	const struct timespec past = {0, 0};

	for (int i = 0; i < 4; i++) {
		begin();
		lock.word = flags[i];
		CHECK(fgi_trylock(&lock), "a free lock (%#x) was refused", flags[i]);
		CHECK((lock.word & FG_OWNER_MASK) == fgi_self() && lock.ops == 1);
		CHECK_SECTIONS(1);
		CHECK((lock.word & DEMAND) == (flags[i] & DEMAND), "the alpha's demand was lost");
		CHECK(!fgi_trylock(&lock) && lock.ops == 1);
		CHECK(fgi_timedlock(&lock, CLOCK_MONOTONIC, &past) == ETIMEDOUT);
		CHECK_SECTIONS(1);
		fgi_unlock(&lock);
		CHECK(is_free(lock.word));
		CHECK_SECTIONS(0);

		lock.word = flags[i];
		CHECK(fgi_timedlock(&lock, CLOCK_REALTIME, &past) == 0, "free (%#x): the past does not matter",
		      flags[i]);
		fgi_unlock(&lock);

		lock.word = flags[i];
		fgi_lock(&lock);
		CHECK(lock.word == fgi_self(), "nobody demands it any more: %#x", lock.word);
		fgi_unlock(&lock);
		CHECK(lock.word == 0);
		lock.word = flags[i];
		finish();
	}
}

static void test_release_keeps_flags(void)
{
	const uint32_t flags[] = {0, WAKE, DEMAND, WAKE | DEMAND};

	for (int i = 0; i < 4; i++) {
		begin();
		fgi_lock(&lock);
		lock.word |= flags[i];
		fgi_unlock(&lock);
		CHECK(lock.word == flags[i], "%#x is now %#x", flags[i], lock.word);
		finish();
	}
}

/* ---- what the monitor says -------------------------------------------------------------------------------------- */

static void *waits(void *unused)
{
	(void)unused;
	fgi_lock(&lock);
	fgi_unlock(&lock);
	return NULL;
}

/* Neither its clock nor the pace would send the alpha to sleep. */
static void check_alpha_sleeps_told_by(const struct fg_shared *page)
{
	uint64_t began = fgi_now_ns(CLOCK_MONOTONIC);
	pthread_t thread;

	begin_patiently();
	fgi_tune.sleep_ns = LONG_NS;
	fgi_lock(&lock);
	fgi_monitor_attach(page);
	thread = check_thread(waits, NULL);
	await_bits(&lock.word, WAKE);
	CHECK((fgi_now_ns(CLOCK_MONOTONIC) - began) / 1000 < LATE_US, "it went to sleep by its clock");
	fgi_monitor_attach(NULL);
	fgi_unlock(&lock);
	check_join(thread);
	finish();
}

static void test_alpha_sleeps_if_told(void)
{
	static struct fg_shared sleeps = {.heartbeat_ns = INT64_MAX};
	static const struct fg_shared preempted = {.heartbeat_ns = INT64_MAX, .num_preempted_cs = 1};

	sleeps.off_cpu[fgi_self() % FG_OFF_CPU] = fgi_self();
	check_alpha_sleeps_told_by(&sleeps);
	check_alpha_sleeps_told_by(&preempted);
}

/* ---- an alpha that cannot run ----------------------------------------------------------------------------------- */

static uint32_t handled;

static void sit_down(void)
{
	struct fgi_place at;

	CHECK(fgi_room_enter(&lock.room, LONG_NS, false, &at));
}

/* As a collector that stops threads, wherever they are, might do; and here the thread is about to have the lock. */
static void handler_locks(int signal)
{
	(void)signal;
	fgi_lock(&lock);
	fgi_unlock(&lock);
	fg_store_release(&handled, 1);
}

static void test_alpha_stopped_by_who_waits(void)
{
	struct sigaction action = {.sa_handler = handler_locks};
	pthread_t thread;

	begin();
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	fgi_lock(&lock);
	thread = check_thread(waits, NULL);
	await_bits(&lock.word, WAKE | DEMAND);
	CHECK(pthread_kill(thread, SIGUSR1) == 0);
	await_parked(&lock, 1);
	fgi_unlock(&lock);
	check_join(thread);
	CHECK(fg_load_acquire(&handled));
	finish();
}

static void *takes_often(void *argument)
{
	for (int i = 0; i < 20; i++) {
		if (argument)
			fgi_lock(&lock);
		else
			while (!fgi_trylock(&lock))
				sched_yield();
		fgi_unlock(&lock);
	}
	return NULL;
}

/* The word demanded and free, the seat taken, and nobody there: the others get by, in every number. */
static void test_nobody_comes(void)
{
	pthread_t thread[4];

	begin();
	sit_down();
	lock.word = DEMAND | WAKE;
	for (uintptr_t i = 0; i < 4; i++)
		thread[i] = check_thread(takes_often, (void *)i);
	for (int i = 0; i < 4; i++)
		check_join(thread[i]);
	if (fgi_room_leave(&lock.room, true))
		fgi_room_wake(&lock.room);
	finish();
}

/* ---- waiters that give up --------------------------------------------------------------------------------------- */

static void *gives_up(void *clock_)
{
	clockid_t clock = (clockid_t)(intptr_t)clock_;
	struct timespec until = from_now(clock, PATIENCE_US);
	uint64_t began = fgi_now_ns(CLOCK_MONOTONIC), took_us;

	errno = 4711;
	CHECK(fgi_timedlock(&lock, clock, &until) == ETIMEDOUT, "it got a lock that is held");
	CHECK(errno == 4711);
	CHECK_SECTIONS(0);
	took_us = (fgi_now_ns(CLOCK_MONOTONIC) - began) / 1000;
	if (clock == CLOCK_MONOTONIC)
		CHECK(took_us >= PATIENCE_US, "it gave up after %lu us", (unsigned long)took_us);
	CHECK(took_us < PATIENCE_US + LATE_US, "it gave up after %lu us", (unsigned long)took_us);
	return NULL;
}

static pthread_t start_giver(clockid_t clock)
{
	return check_thread(gives_up, (void *)(intptr_t)clock);
}

static void test_alpha_gives_up(void)
{
	for (int i = 0; i < 4; i++) {
		pthread_t thread;

		begin();
		fgi_tune.lease_ns = i < 2 ? LONG_NS : 1000; /* it goes to sleep, or demands the lock first */
		fgi_lock(&lock);
		thread = start_giver(i % 2 ? CLOCK_REALTIME : CLOCK_MONOTONIC);
		await_bits(&lock.room.seats, FGI_SEAT);
		await_bits(&lock.word, i < 2 ? WAKE : DEMAND);
		check_join(thread);
		CHECK((lock.word & ~WAKE) == fgi_self(), "nobody is left who demands it: %#x", lock.word);
		CHECK(lock.room.seats == fgi_room_now(0), "seats %#x", lock.room.seats);
		fgi_unlock(&lock);
		finish();
	}
}

/* The alpha goes, and the one that is parked takes its place. */
static void test_alpha_gives_up_for_another(void)
{
	pthread_t alpha, parked;

	begin_patiently();
	fgi_lock(&lock);
	alpha = start_giver(CLOCK_MONOTONIC);
	await_bits(&lock.room.seats, FGI_SEAT);
	parked = check_thread(waits, NULL);
	await_parked(&lock, 1);
	check_join(alpha);
	await_parked(&lock, 0);
	CHECK(lock.room.seats & FGI_SEAT);
	fgi_unlock(&lock);
	check_join(parked);
	finish();
}

static void test_parked_gives_up(void)
{
	for (int i = 0; i < 2; i++) {
		pthread_t thread[3];

		begin_patiently();
		fgi_lock(&lock);
		sit_down();
		for (int k = 0; k < 3; k++)
			thread[k] = start_giver(i ? CLOCK_REALTIME : CLOCK_MONOTONIC);
		await_parked(&lock, 3);
		for (int k = 0; k < 3; k++)
			check_join(thread[k]);
		CHECK((lock.room.seats & ~(uint32_t)(FGI_KNOCK | FGI_COMING)) == (fgi_room_now(0) | FGI_SEAT),
		      "seats %#x", lock.room.seats);
		CHECK(!fgi_room_leave(&lock.room, true));
		fgi_unlock(&lock);
		finish();
	}
}

/* It is called, but nobody wakes it: at its deadline it finds the call, passes it on and goes. */
static void test_called_gives_up(void)
{
	pthread_t late, patient;

	begin_patiently();
	fgi_lock(&lock);
	sit_down();
	late = start_giver(CLOCK_MONOTONIC);
	await_parked(&lock, 1);
	patient = check_thread(waits, NULL);
	await_parked(&lock, 2);
	CHECK(fgi_room_leave(&lock.room, true));
	check_join(late);
	await_parked(&lock, 0);
	fgi_unlock(&lock);
	check_join(patient);
	finish();
}

/* The deadline and the release come together: whoever gives up leaves nothing behind that another waits for. */
static void *may_give_up(void *us)
{
	struct timespec until = from_now(CLOCK_MONOTONIC, (uintptr_t)us);

	if (fgi_timedlock(&lock, CLOCK_MONOTONIC, &until) == 0)
		fgi_unlock(&lock);
	return NULL;
}

static void test_give_up_at_release(void)
{
	for (uintptr_t us = 0; us < 300; us++) {
		pthread_t alpha, parked;

		begin();
		fgi_lock(&lock);
		alpha = check_thread(may_give_up, (void *)us);
		parked = check_thread(waits, NULL);
		while (us % 2 && !(fg_load_relaxed(&lock.room.seats) & FGI_SEAT))
			sched_yield();
		fgi_nap((uint32_t)us * 900);
		fgi_unlock(&lock);
		check_join(alpha);
		check_join(parked);
		CHECK(is_free(lock.word) && (lock.room.seats & ~(uint32_t)(FGI_KNOCK | FGI_COMING)) == fgi_room_now(0));
	}
}

/* Who parks while a turn takes long is not to sleep as long when all others have gone: the lock is free. */
static void test_turns_were_long(void)
{
	struct fgi_ledger *ledger = fgi_ledger(&lock);
	uint64_t began;
	pthread_t parked;

	begin();
	ledger->lock = (uintptr_t)&lock;
	ledger->pace_ns = UINT32_MAX;
	fgi_lock(&lock);
	sit_down();
	parked = check_thread(waits, NULL);
	await_parked(&lock, 1);
	ledger->pace_ns = 100;
	CHECK(!fgi_room_leave(&lock.room, false));
	fgi_unlock(&lock);
	began = fgi_now_ns(CLOCK_MONOTONIC);
	check_join(parked);
	CHECK(fgi_now_ns(CLOCK_MONOTONIC) - began < LATE_US * 1000ull, "it slept beside a free lock");
	finish();
}

/* ---- the beginning of a lease ----------------------------------------------------------------------------------- */

static void begin_lease(bool displacing)
{
	struct fgi_ledger *ledger = fgi_ledger(&lock);

	begin();
	ledger->lock = (uintptr_t)&lock;
	ledger->regime = FGI_LEASED;
	ledger->pace_ns = 100;
	sit_down();
	CHECK(take_as_alpha(&lock, 0, displacing));
	CHECK(lock.word == (fgi_self() | (displacing ? DEMAND : 0)), "word %#x", lock.word);
}

/* Unlocks and locks again. Returns whether the lock is still reserved. */
static bool again(void)
{
	uint32_t before = lock.word & DEMAND;

	fgi_unlock(&lock);
	CHECK(lock.word == before, "word %#x", lock.word);
	fgi_lock(&lock);
	CHECK((lock.word & ~DEMAND) == fgi_self(), "word %#x", lock.word);
	return lock.word & DEMAND;
}

static void test_lease_begins(void)
{
	begin_lease(false);
	CHECK(!again(), "reserved, and nobody was displaced");
	fgi_unlock(&lock);
	finish();

	begin_lease(true);
	CHECK(again() && again() && again());
	sit_down(); /* as if it were another who now waits for the end of the lease */
	CHECK(!again() && !again(), "reserved for longer than it takes to sit down");
	CHECK(!fgi_room_leave(&lock.room, true));
	fgi_unlock(&lock);
	finish();

	begin_lease(true);
	for (unsigned int i = 0; i < KEPT_SECTIONS; i++)
		CHECK(again(), "nobody has come, but after %u sections it is not reserved any more", i);
	CHECK(!again(), "reserved for ever");
	fgi_unlock(&lock);
	finish();
}

/* Whose turn it is gets a lease, too, if nobody was at work. */
static void test_lease_of_a_turn(void)
{
	struct fgi_ledger *ledger = fgi_ledger(&lock);

	for (int turn = 0; turn < 2; turn++) {
		begin_lease(false);
		ledger->until_ns = UINT64_MAX;
		fgi_unlock(&lock);
		sit_down();
		CHECK(watch(&lock, &FGI_SPIN_BUDGET(CLOCK_MONOTONIC, NULL), turn) == 0);
		CHECK(lock.word == (fgi_self() | (turn ? DEMAND : 0)), "word %#x", lock.word);
		fgi_unlock(&lock);
		ledger->until_ns = 0;
		finish();
	}
}

/* Nobody sits down, but somebody is parked, and its clock will not wake it: so the owner calls. */
static void test_lease_calls(void)
{
	uint64_t began;
	pthread_t parked;

	begin_lease(true);
	fgi_tune.lease_ns = LONG_NS;
	sit_down();
	parked = check_thread(waits, NULL);
	await_parked(&lock, 1);
	CHECK(!fgi_room_leave(&lock.room, false));
	fgi_tune.rotate_ns = LONG_NS;
	fgi_ledger(&lock)->rotated_us = (uint32_t)(fgi_now_ns(CLOCK_MONOTONIC) / 1000);
	for (unsigned int i = 0; i < 2 * KEPT_SECTIONS + 1; i++)
		CHECK(again(), "no turn is due");
	CHECK(lock.room.seats == fgi_room_now(0) + FGI_ONE, "called too soon: %#x", lock.room.seats);
	fgi_tune.rotate_ns = 0;
	began = fgi_now_ns(CLOCK_MONOTONIC);
	for (unsigned int i = 0; i <= KEPT_SECTIONS; i++) {
		fgi_unlock(&lock);
		fgi_lock(&lock);
	}
	CHECK(lock.room.gate != 0, "no call");
	fgi_unlock(&lock);
	check_join(parked);
	CHECK(fgi_now_ns(CLOCK_MONOTONIC) - began < LATE_US * 1000ull, "nobody called");
	finish();
}

/* The owner does not come back to what is reserved for it: another gets it nevertheless, and no reservation. */
static void test_lease_abandoned(void)
{
	begin_lease(true);
	fgi_unlock(&lock);
	CHECK(lock.word == DEMAND);
	check_join(check_thread(waits, NULL));
	CHECK(lock.word == 0, "word %#x", lock.word);
	finish();
}

/* ---- who unlocks for another ------------------------------------------------------------------------------------ */

static void *only_locks(void *unused)
{
	(void)unused;
	fgi_lock(&lock);
	return NULL;
}

static void test_foreign_unlock(void)
{
	pthread_t thread[2];

	begin();
	check_join(check_thread(only_locks, NULL));
	thread[0] = check_thread(waits, NULL);
	await_bits(&lock.word, WAKE);
	thread[1] = check_thread(waits, NULL);
	await_parked(&lock, 1);
	fgi_unlock(&lock);
	CHECK_SECTIONS(-1);
	fg_thread.held = 0;
	check_join(thread[0]);
	check_join(thread[1]);
	finish();
}

int main(int argc, char **argv)
{
	check_watchdog(200);
	usual = fgi_tune;
	if (argc == 2 && strcmp(argv[1], "blind") == 0) {
		forbid(SYS_membarrier);
		CHECK(!fgi_membarrier());
	}
	test_flags_without_owner();
	test_release_keeps_flags();
	test_alpha_sleeps_if_told();
	test_alpha_stopped_by_who_waits();
	test_nobody_comes();
	test_alpha_gives_up();
	test_alpha_gives_up_for_another();
	test_parked_gives_up();
	test_called_gives_up();
	test_give_up_at_release();
	test_turns_were_long();
	test_lease_begins();
	test_lease_of_a_turn();
	test_lease_calls();
	test_lease_abandoned();
	test_foreign_unlock();
	return 0;
}
