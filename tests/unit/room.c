/* SPDX-License-Identifier: MIT */
/* The waiting room of the default lock, row by row of its state table, and under a crowd. */
#include "locks/default/room.h"

#include <sched.h>

#include "tests/check.h"

#define LONG_NS 1000000000000u /* nobody waits for that */
#define SHORT_NS 1000u

static struct fgi_room room;
static const struct timespec past = {0, 0};

static uint32_t seats(void)
{
	return fg_load_relaxed(&room.seats);
}

static void begin(uint32_t as)
{
	room = (struct fgi_room){.seats = fgi_room_now(0) | as, .gate = UINT32_MAX - 1}; /* it may wrap */
}

static bool looks(uint32_t as)
{
	return seats() == (fgi_room_now(0) | as);
}

static int park_at(struct fgi_place *at, const struct fgi_spin_budget *p)
{
	int result;

	do
		result = fgi_room_park(&room, at, p);
	while (result == EAGAIN);
	return result;
}

static int park(uint32_t gate, uint64_t allowed_ns, const struct timespec *deadline)
{
	struct fgi_place at = {.gate = gate};

	fgi_room_renew_deadline(&at, allowed_ns);
	return park_at(&at, &FGI_SPIN_BUDGET(CLOCK_MONOTONIC, deadline));
}

static int enter_until(clockid_t clock, const struct timespec *deadline, uint64_t turn_ns, bool rotate)
{
	struct fgi_place at;

	return fgi_room_enter(&room, turn_ns, rotate, &at) ? 0 : park_at(&at, &FGI_SPIN_BUDGET(clock, deadline));
}

static int enter(bool patient, uint64_t turn_ns, bool rotate)
{
	return enter_until(CLOCK_MONOTONIC, patient ? NULL : &past, turn_ns, rotate);
}

/* ---- one thread ------------------------------------------------------------------------------------------------- */

static void test_comes(void)
{
	begin(0);
	CHECK(enter(true, LONG_NS, false) == 0 && looks(FGI_SEAT), "seat free, nobody parked");
	begin(0);
	CHECK(enter(true, LONG_NS, true) == 0 && looks(FGI_SEAT), "a turn is due, but nobody's");
	begin(2 * FGI_ONE);
	CHECK(enter(true, LONG_NS, false) == 0 && looks(FGI_SEAT | 2 * FGI_ONE), "seat free, no turn due");
	begin(FGI_SEAT);
	CHECK(enter(false, LONG_NS, false) == ETIMEDOUT && looks(FGI_SEAT), "seat taken: parks until its deadline");
	begin(FGI_SEAT | FGI_CALLED | FGI_ONE);
	CHECK(enter(false, LONG_NS, false) == 0 && looks(FGI_SEAT | FGI_ONE),
	      "who parks may be the one that is called");
}

/* Somebody is parked and due: who comes calls it. It does not come, here, so the caller takes the seat back. */
static void test_comes_and_calls(void)
{
	const uint32_t due[] = {FGI_ONE, FGI_ONE | FGI_KNOCK, FGI_ONE | FGI_COMING};

	for (int i = 0; i < 3; i++) {
		begin(due[i]);
		CHECK(enter(true, LONG_NS, i != 1) == 0);
		CHECK(room.gate == UINT32_MAX, "no call");
		CHECK(looks(FGI_SEAT | (due[i] & FGI_COMING) | FGI_ONE), "nobody slept, so nobody is coming: %#x",
		      seats());
	}
}

static void test_leaves(void)
{
	begin(FGI_SEAT);
	CHECK(!fgi_room_leave(&room, true) && looks(0), "called nobody");
	begin(FGI_SEAT | FGI_ONE);
	CHECK(!fgi_room_leave(&room, false) && looks(FGI_ONE));
	CHECK(room.gate == UINT32_MAX - 1, "a call that nobody asked for");
	begin(FGI_SEAT | 2 * FGI_ONE);
	CHECK(fgi_room_leave(&room, true) && looks(FGI_SEAT | FGI_CALLED | 2 * FGI_ONE));
	CHECK(room.gate == UINT32_MAX, "no call");
	begin(FGI_SEAT | FGI_KNOCK | FGI_ONE);
	CHECK(fgi_room_leave(&room, false) && looks(FGI_SEAT | FGI_CALLED | FGI_ONE), "a knock was not heard");
	begin(FGI_SEAT | FGI_COMING | FGI_ONE);
	CHECK(!fgi_room_leave(&room, true) && looks(FGI_SEAT | FGI_CALLED | FGI_COMING | FGI_ONE),
	      "somebody is woken beside the one that is coming");
	CHECK(room.gate == UINT32_MAX, "no call");
}

/* An owner that has left the seat calls later, if nobody is there. */
static void test_calls_later(void)
{
	const uint32_t none[] = {0, FGI_SEAT | FGI_ONE, FGI_SEAT | FGI_CALLED | FGI_ONE};

	for (int i = 0; i < 3; i++) {
		begin(none[i]);
		fgi_room_call(&room);
		CHECK(looks(none[i]) && room.gate == UINT32_MAX - 1, "a call to nobody, or past an alpha: %#x",
		      seats());
	}
	begin(FGI_KNOCK | 2 * FGI_ONE);
	fgi_room_call(&room);
	CHECK(looks(FGI_SEAT | FGI_CALLED | 2 * FGI_ONE) && room.gate == UINT32_MAX, "no call: %#x", seats());
	begin(FGI_COMING | FGI_ONE);
	fgi_room_call(&room);
	CHECK(looks(FGI_SEAT | FGI_CALLED | FGI_COMING | FGI_ONE) && room.gate == UINT32_MAX, "no call: %#x", seats());
}

/* Who is the alpha since a turn was due, and who just found the seat free. */
static void test_turns(void)
{
	struct fgi_place at;

	begin(FGI_ONE);
	CHECK(fgi_room_enter(&room, LONG_NS, false, &at) && !at.turn);
	begin(FGI_ONE);
	CHECK(fgi_room_enter(&room, LONG_NS, true, &at) && at.turn, "it called who did not come");
	begin(FGI_SEAT);
	CHECK(!fgi_room_enter(&room, LONG_NS, false, &at) && at.turn, "who is parked comes when called");
}

/* Between being counted and going to sleep a thread is called. */
static void test_call_before_sleep(void)
{
	uint32_t gate;

	begin(FGI_SEAT | FGI_ONE);
	gate = room.gate;
	CHECK(fgi_room_leave(&room, true));
	fgi_room_wake(&room); /* finds nobody */
	CHECK(park(gate, LONG_NS, NULL) == 0);
	CHECK(looks(FGI_SEAT));
}

static void test_parked_by_its_clock(void)
{
	begin(FGI_ONE);
	CHECK(park(room.gate, SHORT_NS, NULL) == 0);
	CHECK(looks(FGI_SEAT), "the seat was free");
	begin(FGI_SEAT | FGI_CALLED | FGI_ONE);
	CHECK(park(room.gate, SHORT_NS, NULL) == 0);
	CHECK(looks(FGI_SEAT), "who is called first takes the call");
	begin(FGI_SEAT | FGI_ONE);
	CHECK(park(room.gate, LONG_NS, &past) == ETIMEDOUT);
	CHECK(looks(FGI_SEAT), "who gives up is not counted any more");
	begin(FGI_CALLED | FGI_SEAT | FGI_ONE);
	CHECK(park(room.gate, LONG_NS, &past) == 0,
	      "who is called and late is the alpha nevertheless: nobody else would be");
	begin(FGI_SEAT | FGI_COMING | FGI_ONE);
	CHECK(park(room.gate, LONG_NS, &past) == ETIMEDOUT);
	CHECK(looks(FGI_SEAT), "all believe that somebody is coming, and it was this one");
}

/* Who knocks is told, and may go. */
static void test_quits(void)
{
	const struct {
		uint32_t before, after;
		bool wakes;
	} rooms[] = {
		{FGI_SEAT | FGI_ONE, FGI_SEAT, false},
		{FGI_SEAT | 2 * FGI_ONE, FGI_SEAT | FGI_ONE, false},
		{FGI_SEAT | FGI_CALLED | FGI_COMING | FGI_ONE, 0, false}, /* the call was for nobody else */
		{FGI_SEAT | FGI_CALLED | 2 * FGI_ONE, FGI_SEAT | FGI_CALLED | FGI_ONE, true},
		{FGI_SEAT | FGI_CALLED | FGI_COMING | 2 * FGI_ONE, FGI_SEAT | FGI_CALLED | FGI_COMING | FGI_ONE, false},
		{FGI_ONE, 0, false},
	};
	struct fgi_place at = {.gate = UINT32_MAX - 1};

	for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
		begin(rooms[i].before);
		CHECK(fgi_room_quit(&room, &(struct fgi_place){0}) == rooms[i].wakes);
		CHECK(looks(rooms[i].after), "%#x: seats %#x", rooms[i].before, seats());
		CHECK(room.gate == UINT32_MAX - !(rooms[i].after & FGI_CALLED), "%#x: no call", rooms[i].before);
		begin(rooms[i].before | FGI_AHEAD);
		fgi_room_quit(&room, &(struct fgi_place){.ahead = true});
		CHECK(looks(rooms[i].after), "ahead of others, %#x: seats %#x", rooms[i].before, seats());
	}
	begin(FGI_SEAT | FGI_ONE);
	fgi_room_renew_deadline(&at, SHORT_NS);
	CHECK(fgi_room_park(&room, &at, &FGI_SPIN_BUDGET(CLOCK_MONOTONIC, NULL)) == EAGAIN);
	CHECK(looks(FGI_SEAT | FGI_KNOCK | FGI_ONE) && at.allowed_ns == 4 * SHORT_NS);
}

/* A call that went to another costs the parked one look, and it sleeps on. */
static void test_call_for_another(void)
{
	uint64_t before = fg_thread.parks;
	struct timespec soon;

	begin(FGI_SEAT | FGI_ONE);
	soon = fgi_timespec(fgi_now_ns(CLOCK_MONOTONIC) + 5000000);
	CHECK(park(room.gate - 1, LONG_NS, &soon) == ETIMEDOUT);
	CHECK(fg_thread.parks - before <= 3, "it went to sleep %lu times", (unsigned long)(fg_thread.parks - before));
}

static void test_real_time_deadline(void)
{
	struct timespec soon = fgi_timespec(fgi_now_ns(CLOCK_REALTIME) + 1000);

	begin(FGI_SEAT);
	CHECK(enter_until(CLOCK_REALTIME, &soon, LONG_NS, false) == ETIMEDOUT);
	CHECK(looks(FGI_SEAT));
}

/* What a room says that is of a process before the fork, it says of threads that are not here. */
static void test_generations(void)
{
	for (int forks = 1; forks <= 1000; forks++) {
		begin(FGI_SEAT | FGI_CALLED | FGI_KNOCK | FGI_COMING | 1000 * (uint32_t)FGI_ONE);
		fgi_forks += 2;
		CHECK(fgi_room_now(seats()) == fgi_room_now(0), "fork %d", forks);
		CHECK(enter(true, LONG_NS, true) == 0 && looks(FGI_SEAT), "fork %d: somebody sits there", forks);
		CHECK(!fgi_room_leave(&room, true) && looks(0));
		begin(FGI_SEAT | 3 * FGI_ONE);
		fgi_forks += 2;
		CHECK(!fgi_room_leave(&room, true) && looks(0), "fork %d: somebody was called", forks);
	}
}

/* ---- two threads ------------------------------------------------------------------------------------------------ */

static void *comes(void *turn_ns)
{
	return (void *)(intptr_t)enter(true, (uintptr_t)turn_ns, false);
}

static void await_seats(uint32_t bits)
{
	while ((seats() & bits) != bits)
		sched_yield();
}

static void test_parked_knocks(void)
{
	pthread_t thread;

	begin(FGI_SEAT);
	thread = check_thread(comes, (void *)(uintptr_t)SHORT_NS);
	await_seats(FGI_KNOCK);
	CHECK(looks(FGI_SEAT | FGI_KNOCK | FGI_ONE), "seats %#x", seats());
	CHECK(fgi_room_leave(&room, false), "the knock was not heard");
	fgi_room_wake(&room);
	CHECK(check_join(thread) == NULL);
	CHECK(!(seats() & FGI_CALLED) && (seats() & FGI_SEAT) && seats() < FGI_ONE, "seats %#x", seats());
}

static struct turn {
	uint32_t tid, turn;
} turns[3];
static uint32_t order;

static void *comes_in_turn(void *argument)
{
	struct turn *mine = argument;

	fg_store_relaxed(&mine->tid, fgi_self());
	CHECK(enter(true, LONG_NS, false) == 0);
	mine->turn = fg_fetch_add_relaxed(&order, 1) + 1;
	if (fgi_room_leave(&room, true))
		fgi_room_wake(&room);
	return NULL;
}

/* In a system call, that is: at the gate. The kernel says "running" of others. */
static void await_asleep(const struct turn *t)
{
	char path[64], first = 'r';

	while (!fg_load_relaxed(&t->tid))
		sched_yield();
	snprintf(path, sizeof(path), "/proc/self/task/%u/syscall", fg_load_relaxed(&t->tid));
	while (first == 'r') {
		FILE *file = fopen(path, "r");

		CHECK(file && fread(&first, 1, 1, file) == 1, "%s", path);
		fclose(file);
	}
}

/* Asleep, and not by its clock. */
static void test_parked_is_called(void)
{
	for (int later = 0; later < 2; later++) {
		uint64_t began = fgi_now_ns(CLOCK_MONOTONIC);
		pthread_t thread;

		turns[0] = (struct turn){0};
		begin(FGI_SEAT);
		thread = check_thread(comes_in_turn, &turns[0]);
		await_seats(FGI_ONE);
		await_asleep(&turns[0]);
		CHECK(fgi_room_leave(&room, !later) == !later);
		if (later)
			fgi_room_call(&room);
		else
			fgi_room_wake(&room);
		CHECK(check_join(thread) == NULL && looks(0), "seats %#x", seats());
		CHECK(fgi_now_ns(CLOCK_MONOTONIC) - began < FGI_LONGEST_PARK_NS - 1000000000, "its clock woke it");
	}
	turns[0] = (struct turn){0};
	order = 0;
}

/* Who came first is woken, finds that the call was taken back, and is still the first. */
static void test_late_keeps_its_place(void)
{
	pthread_t thread[3];

	begin(FGI_SEAT);
	for (uint32_t i = 0; i < 3; i++) {
		thread[i] = check_thread(comes_in_turn, &turns[i]);
		while (seats() / FGI_ONE <= i)
			sched_yield();
		await_asleep(&turns[i]);
	}
	CHECK(fgi_room_wake(&room));
	await_seats(FGI_AHEAD);
	await_asleep(&turns[0]);
	CHECK(looks(FGI_SEAT | FGI_AHEAD | 3 * FGI_ONE), "seats %#x", seats());
	CHECK(fgi_room_leave(&room, true));
	fgi_room_wake(&room);
	for (uint32_t i = 0; i < 3; i++) {
		check_join(thread[i]);
		CHECK(turns[i].turn == i + 1, "who came as number %u was number %u", i + 1, turns[i].turn);
	}
	CHECK(looks(0), "seats %#x", seats());
}

/* ---- a crowd ---------------------------------------------------------------------------------------------------- */

#define CROWD 12
#define VISITS 4000

static uint32_t seated;
static uint64_t alphas, gave_up;

static void sit(uint64_t dice)
{
	bool call = dice % 4 == 0;

	CHECK(fg_fetch_add_acquire(&seated, 1) == 0, "two alphas");
	fg_fetch_add_relaxed(&alphas, 1);
	if (dice % 64 == 1)
		sched_yield();
	fg_fetch_sub_release(&seated, 1);
	if (fgi_room_leave(&room, call))
		fgi_room_wake(&room);
}

static void *visitor(void *argument)
{
	uint64_t dice = 0x9e3779b97f4a7c15u * (uintptr_t)argument;

	for (int i = 0; i < VISITS; i++) {
		struct timespec soon;
		int result;

		dice ^= dice << 13, dice ^= dice >> 7, dice ^= dice << 17;
		soon = fgi_timespec(fgi_now_ns(CLOCK_MONOTONIC) + (dice >> 20 & 0x1ffff));
		result = enter_until(CLOCK_MONOTONIC, dice % 3 ? NULL : &soon, dice >> 40 & 0xfffff, dice % 5 == 0);
		if (result == 0)
			sit(dice >> 8);
		else
			fg_fetch_add_relaxed(&gave_up, 1);
		CHECK(result == 0 || (result == ETIMEDOUT && dice % 3 == 0), "result %d", result);
	}
	return NULL;
}

static void test_crowd(void)
{
	pthread_t thread[CROWD];

	begin(0);
	for (uintptr_t i = 0; i < CROWD; i++)
		thread[i] = check_thread(visitor, (void *)(i + 1));
	for (int i = 0; i < CROWD; i++)
		check_join(thread[i]);
	CHECK(alphas + gave_up == CROWD * VISITS);
	CHECK((seats() & ~(uint32_t)(FGI_KNOCK | FGI_COMING)) == fgi_room_now(0), "somebody is left in the room: %#x",
	      seats());
	printf("%lu alphas, %lu gave up\n", (unsigned long)alphas, (unsigned long)gave_up);
}

int main(void)
{
	check_watchdog(100);
	test_comes();
	test_comes_and_calls();
	test_leaves();
	test_calls_later();
	test_turns();
	test_call_before_sleep();
	test_parked_by_its_clock();
	test_quits();
	test_call_for_another();
	test_real_time_deadline();
	test_generations();
	test_parked_is_called();
	test_parked_knocks();
	test_late_keeps_its_place();
	test_crowd();
	return 0;
}
