/* SPDX-License-Identifier: MIT */
/* What a waiter is advised, row by row, beside pages of this test's own making. */
#include <sched.h>
#include <sys/wait.h>

#include "flexguard/advice.h"
#include "runtime/clock.h"
#include "runtime/cpu.h"
#include "runtime/monitor.h"
#include "runtime/thread.h"
#include "tests/check.h"

#define DOMAIN 3

static struct fg_published all __attribute__((aligned(FG_PAGE)));
static struct fg_published quiet __attribute__((aligned(FG_PAGE)));

/* A handle that some other thread has given away, and its names on the page. */
#define TID 4711u
#define LIFE 0x123456u
static const fg_handle other = (uint64_t)LIFE << 32 | TID;

static void say(uint32_t name, uint32_t note)
{
	all.off_cpu[DOMAIN][fg_off_cpu_place(TID)] = name;
	all.off_cpu_notes[DOMAIN][fg_off_cpu_place(TID)] = note;
}

static void check_advice(int line, struct fg_wait w, uint32_t action, uint32_t reason)
{
	struct fg_advice a = fg_wait_advice(&w);

	CHECK(a.action == action && a.reason == reason, "line %d: action %u because of %u", line, a.action, a.reason);
	CHECK((a.sleep_ns != 0) == (action == FG_WAIT_SLEEP), "line %d: sleeps for %lu ns", line,
	      (unsigned long)a.sleep_ns);
	CHECK(a.sleep_ns <= FG_SLEEP_LONGEST_NS, "line %d: %lu ns", line, (unsigned long)a.sleep_ns);
}

#define ADVICE(action, reason, ...)                                                                                    \
	check_advice(__LINE__, (struct fg_wait){__VA_ARGS__}, FG_WAIT_##action, FG_WHY_##reason)

static uint32_t note_of_cpu(uint32_t cpu)
{
	return LIFE | cpu << FG_NOTE_CPU_SHIFT;
}

static void knows_whom(void)
{
	uint32_t here = fgi_cpu();

	say(0, 0);
	ADVICE(SPIN, RUNS, .whom = other);
	ADVICE(SPIN, RUNS, .whom = other, .looks = 5000);
	ADVICE(YIELD, LONG, .whom = other, .looks = 100000);
	ADVICE(SLEEP, LONG, .whom = other, .looks = 200000);
	say(TID, note_of_cpu(here));
	ADVICE(SLEEP, ASLEEP, .whom = other);
	say(TID | FG_RUNNABLE, note_of_cpu(here));
	ADVICE(YIELD, PREEMPTED, .whom = other);
	say(TID | FG_RUNNABLE, note_of_cpu(here ^ 1));
	ADVICE(SLEEP, PREEMPTED, .whom = other);
	ADVICE(SLEEP, PREEMPTED, .whom = other, .looks = 5000);
	say(TID | FG_RUNNABLE, note_of_cpu(FG_NOTE_NO_CPU));
	ADVICE(YIELD, PREEMPTED, .whom = other);
	/* Another thread that has the tid now, one that has given no handle, and one that shares the place. */
	say(TID | FG_RUNNABLE, note_of_cpu(here) + 1);
	ADVICE(SPIN, RUNS, .whom = other);
	say(TID, 0);
	ADVICE(SPIN, RUNS, .whom = other);
	say((TID + 256) | FG_RUNNABLE, note_of_cpu(here));
	ADVICE(SPIN, RUNS, .whom = other);
	say(FG_RUNNABLE, note_of_cpu(here));
	ADVICE(SPIN, RUNS, .whom = other);
	say(0, 0);
}

static void knows_how_many(void)
{
	ADVICE(SPIN, RUNS, .number = 1);
	ADVICE(YIELD, TOO_MANY, .number = CPU_SETSIZE, .looks = 1);
	ADVICE(SLEEP, TOO_MANY, .number = CPU_SETSIZE, .looks = 1023);
	all.domains[DOMAIN].num_preempted_cs = 1;
	ADVICE(YIELD, PREEMPTED, .number = 1);
	say(TID | FG_RUNNABLE, note_of_cpu(fgi_cpu() ^ 1));
	ADVICE(SLEEP, PREEMPTED, .number = 1);
	say(TID, note_of_cpu(fgi_cpu() ^ 1)); /* it sleeps: where the preempted one waits is not known */
	ADVICE(YIELD, PREEMPTED, .number = 1);
	say(TID | FG_RUNNABLE, note_of_cpu(fgi_cpu()));
	ADVICE(YIELD, PREEMPTED, .number = 1);
	say(TID | FG_RUNNABLE, note_of_cpu(FG_NOTE_NO_CPU)); /* perhaps here */
	ADVICE(YIELD, PREEMPTED, .number = 1);
	say(0, 0);
	all.domains[DOMAIN].num_preempted_cs = 0;
}

static void knows_nothing(void)
{
	all.page.num_preempted_cs = 5; /* another domain's */
	ADVICE(SPIN, RUNS, .looks = 0);
	all.page.num_preempted_cs = 0;
	ADVICE(SPIN, RUNS, .looks = 1023);
	ADVICE(YIELD, LONG, .looks = 1024); /* what it waits for may be in no section, and without a CPU */
	ADVICE(YIELD, LONG, .looks = 2047);
	ADVICE(SLEEP, LONG, .looks = 2048);
	all.domains[DOMAIN].num_preempted_cs = 1;
	ADVICE(YIELD, PREEMPTED, .looks = 0);
	ADVICE(SLEEP, PREEMPTED, .looks = 1023);
	ADVICE(SPIN, RUNS, .whom = other); /* it is another thread that is preempted */
	all.domains[DOMAIN].num_preempted_cs = 0;
}

/* Domain 0 without notes: names alone. */
static void knows_names_alone(void)
{
	fgi_monitor_attach(&quiet.page);
	ADVICE(SPIN, RUNS, .whom = other);
	quiet.page.off_cpu[fg_off_cpu_place(TID)] = TID | FG_RUNNABLE;
	ADVICE(YIELD, PREEMPTED, .whom = other);
	quiet.page.off_cpu[fg_off_cpu_place(TID)] = TID;
	ADVICE(SLEEP, ASLEEP, .whom = other);
	quiet.page.off_cpu[fg_off_cpu_place(TID)] = 0;
}

static void has_no_monitor(void)
{
	struct fg_wait w = {.whom = other};
	uint64_t slept = 0;

	fgi_monitor_attach(NULL);
	ADVICE(SPIN, UNMONITORED, .whom = other);
	ADVICE(YIELD, UNMONITORED, .whom = other, .looks = FG_LOOKS_SPINNING);
	ADVICE(SLEEP, UNMONITORED, .whom = other, .looks = FG_LOOKS_SPINNING + FG_LOOKS_YIELDING);
	ADVICE(SLEEP, UNMONITORED, .whom = other, .looks = UINT32_MAX);
	ADVICE(SPIN, UNMONITORED, .number = 1);
	ADVICE(YIELD, TOO_MANY, .number = CPU_SETSIZE);
	for (; w.looks < 2 * (FG_LOOKS_SPINNING + FG_LOOKS_YIELDING); w.looks++) {
		struct fg_advice a = fg_wait_advice(&w);

		CHECK(a.sleep_ns >= slept, "sleeps get longer");
		slept = a.sleep_ns;
	}
	CHECK_IS(slept, FG_SLEEP_LONGEST_NS);
}

/* A monitor that has died leaves its last names on the page: a wait finds out. */
static void outlives_its_monitor(void)
{
	struct fg_wait w = {.whom = other};

	all.page.heartbeat_ns = 1;
	say(TID | FG_RUNNABLE, note_of_cpu(fgi_cpu()));
	fgi_monitor_attach_all(&all, DOMAIN);
	while (fg_wait_advice(&w).reason == FG_WHY_PREEMPTED)
		CHECK(++w.looks < 1000, "it goes on believing a dead monitor");
	CHECK_IS(fg_wait_advice(&w).reason, FG_WHY_UNMONITORED);
	say(0, 0);
}

static void counts_sections(void)
{
	int32_t before = fg_thread.held;

	fg_section_begin();
	fg_section_begin();
	CHECK_IS(fg_thread.held, before + 2);
	fg_section_end();
	CHECK_IS(fg_thread.held, before + 1);
	fg_section_end();
	CHECK_IS(fg_thread.held, before);
}

static void *give_handle(void *unused)
{
	(void)unused;
	return (void *)fg_thread_handle();
}

static void gives_handles(void)
{
	fg_handle mine = fg_thread_handle();
	pid_t child;
	int status;

	CHECK(mine != 0 && !(mine & 0x80000000u) && !(mine >> 54), "%lx", (unsigned long)mine);
	CHECK_IS(mine & FG_OWNER_MASK, gettid());
	CHECK(fg_thread_handle() == mine && mine >> 32 == fg_thread.life);
	CHECK((fg_handle)check_join(check_thread(give_handle, NULL)) != mine);
	child = fork();
	if (child == 0)
		_exit(fg_thread_handle() == mine || (fg_thread_handle() & FG_OWNER_MASK) != (uint32_t)getpid());
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	CHECK_IS(status, 0);
}

/* It does what it advises, and counts. */
static void does_it(void)
{
	struct fg_wait w = {.whom = other};
	uint64_t spins = fg_thread.spins;

	CHECK_IS(fg_wait_once(&w).action, FG_WAIT_SPIN);
	CHECK_IS(w.looks, 1);
	CHECK_IS(fg_thread.spins, spins + 1);
	say(TID, LIFE);
	CHECK_IS(fg_wait_once(&w).action, FG_WAIT_SLEEP);
	CHECK_IS(w.looks, 2);
	say(0, 0);
}

static uint64_t slept_for, stop;

static uint64_t sleep_once(void)
{
	struct fg_wait w = {.looks = 1000000};

	return fg_wait_once(&w).sleep_ns;
}

static void *sleep_again_and_again(void *unused)
{
	uint64_t ns;

	while (!fg_load_relaxed(&stop)) {
		ns = sleep_once();
		if (ns > FG_SLEEP_LONGEST_NS)
			fg_store_relaxed(&slept_for, ns);
	}
	return unused;
}

/* Many threads that nobody wakes sleep for longer; the child of a fork is alone. The watchdog ends
 * what does not come. */
static void sleeps_longer_in_a_crowd(void)
{
	pthread_t *threads;
	cpu_set_t set;
	int number, status;

	CHECK(sched_getaffinity(0, sizeof(set), &set) == 0);
	number = 16 * CPU_COUNT(&set);
	threads = calloc((size_t)number, sizeof(*threads));
	CHECK(threads);
	CHECK_IS(sleep_once(), FG_SLEEP_LONGEST_NS);
	for (int i = 0; i < number; i++)
		threads[i] = check_thread(sleep_again_and_again, NULL);
	while (!fg_load_relaxed(&slept_for))
		sched_yield();
	for (int i = 0; check_goes_on(i, 20); i++) {
		pid_t child = fork();

		if (child == 0)
			_exit(sleep_once() != FG_SLEEP_LONGEST_NS);
		CHECK(child > 0 && waitpid(child, &status, 0) == child);
		CHECK_IS(status, 0);
	}
	fg_store_relaxed(&stop, 1);
	for (int i = 0; i < number; i++)
		check_join(threads[i]);
	free(threads);
	CHECK_IS(sleep_once(), FG_SLEEP_LONGEST_NS);
}

/* ---- what a yield teaches --------------------------------------------------------------------------------------- */

static uint16_t turn_us; /* of a process that the other thread says has had the CPU; 0: it says nothing */

/* It runs only while this test's first thread does not: they share a CPU. */
static void *compute(void *its_line)
{
	struct fg_cpu *line = its_line;
	uint16_t us;

	while (!fg_load_relaxed(&stop)) {
		us = fg_load_relaxed(&turn_us);
		if (us) {
			fg_store_relaxed(&line->stay, us);
			fg_store_relaxed(&line->process_switches, line->process_switches + 1);
		}
	}
	return NULL;
}

static uint32_t wait_for_many(void)
{
	struct fg_wait w = {.number = CPU_SETSIZE};

	return fg_wait_once(&w).action;
}

/* Until a yield has given a slice away; each of them is advised. */
static void yield_for_long(void)
{
	uint64_t before;

	do {
		before = fgi_now_ns(CLOCK_MONOTONIC);
		CHECK_IS(wait_for_many(), FG_WAIT_YIELD);
	} while (fgi_now_ns(CLOCK_MONOTONIC) - before <= 600000);
}

/* What it has learnt it does not know any longer after this. */
static void forget(void)
{
	static const struct timespec long_ago = {0, 110000000};

	nanosleep(&long_ago, NULL);
	ADVICE(YIELD, TOO_MANY, .number = CPU_SETSIZE);
}

/* Was the slice another process's? The CPU's line says it, and without one the time does. The watchdog ends what is not
 * learnt. */
static void learns_from_yields(void)
{
	uint32_t here = fgi_cpu();
	pthread_t other_thread;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(here, &set);
	ok(sched_setaffinity(0, sizeof(set), &set));
	fg_store_relaxed(&all.page.heartbeat_ns, INT64_MAX);
	fgi_monitor_attach_all(&all, DOMAIN);
	fg_store_relaxed(&stop, 0);
	other_thread = check_thread(compute, &all.cpus[here]);

	yield_for_long();
	ADVICE(YIELD, TOO_MANY, .number = CPU_SETSIZE);
	fg_store_relaxed(&turn_us, 500);
	yield_for_long();
	ADVICE(YIELD, TOO_MANY, .number = CPU_SETSIZE);
	fg_store_relaxed(&turn_us, 3000);
	while (wait_for_many() == FG_WAIT_YIELD)
		;

	fg_store_relaxed(&turn_us, 0);
	fgi_monitor_attach(&quiet.page);
	forget();
	while (wait_for_many() == FG_WAIT_YIELD)
		;
	fg_store_relaxed(&stop, 1);
	check_join(other_thread);
}

int main(void)
{
	check_watchdog(500);
	all.page.heartbeat_ns = quiet.page.heartbeat_ns = INT64_MAX;
	counts_sections();
	gives_handles();
	sleeps_longer_in_a_crowd();
	fgi_monitor_attach_all(&all, DOMAIN);
	knows_whom();
	knows_how_many();
	knows_nothing();
	does_it();
	knows_names_alone();
	has_no_monitor();
	outlives_its_monitor();
	learns_from_yields();
	return 0;
}
