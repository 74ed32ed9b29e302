/* SPDX-License-Identifier: MIT */
/* A program that runs under the simulator, in place of the worker, and looks at what it is told there.
 *
 *   fairness   shares of one CPU by weight; a thread that sleeps comes back at once
 *   quota      two threads get half a CPU where that is the control group's quota, on the first CPU of its set
 *   futex      what a wait and a wake return, whom a wake wakes, when a timeout ends
 *   naps       the sleepers of one CPU wake up together; each is charged from the interrupt that wakes it
 *   order      store buffers hide no store from the thread itself, and release stores come in order
 *   ahead      loads behind a locked access begin with it, those behind an ordered reading of the counter do not
 *   deadlock, endless, clock, threads    what must end with a message */
#include <errno.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/futex.h"
#include "tests/simulator/simulated.h"

/* ---- fairness --------------------------------------------------------------------------------------------------- */

static struct {
	uint32_t stop;
	uint64_t cpu_ns[3];
	int nice[3];
} shares = {.nice = {0, 0, 5}};

static void *burn(void *argument)
{
	uint64_t i = (uint64_t)(uintptr_t)argument;

	pin(0);
	assert(setpriority(PRIO_PROCESS, (id_t)gettid(), shares.nice[i]) == 0);
	while (!fg_load_relaxed(&shares.stop))
		fg_cycles();
	shares.cpu_ns[i] = fgi_now_ns(CLOCK_THREAD_CPUTIME_ID);
	return NULL;
}

/* In the mean; the first time it has nothing to its credit. */
static void wakes_up_early(void)
{
	struct timespec nap = {0, 5000000};
	uint64_t late = 0;

	for (int i = 0; i < 20; i++) {
		uint64_t before = now_ns();

		nanosleep(&nap, NULL);
		late += now_ns() - before - 5000000;
	}
	printf("20 sleeps beside busy threads: %.3f ms late each\n", (double)late / 20e6);
	assert(late / 20 < 4500000); /* not behind the slices of all three */
}

static void fairness(void)
{
	pthread_t threads[3];
	double all;

	pin(0);
	for (uint64_t i = 0; i < 3; i++)
		assert(pthread_create(&threads[i], NULL, burn, (void *)(uintptr_t)i) == 0);
	wakes_up_early();
	usleep(1000000);
	fg_store_relaxed(&shares.stop, 1);
	for (int i = 0; i < 3; i++)
		assert(pthread_join(threads[i], NULL) == 0);
	all = (double)(shares.cpu_ns[0] + shares.cpu_ns[1] + shares.cpu_ns[2]);
	printf("shares of nice 0, 0, 5: %.3f %.3f %.3f\n", (double)shares.cpu_ns[0] / all,
	       (double)shares.cpu_ns[1] / all, (double)shares.cpu_ns[2] / all);
	for (int i = 0; i < 3; i++) { /* 1024, 1024 and 336 parts */
		double share = (double)shares.cpu_ns[i] / all, due = (i < 2 ? 1024.0 : 336.0) / 2384;

		assert(share > due - 0.02 && share < due + 0.02);
	}
	assert(all > 0.97e9 && all < 1.2e9); /* one CPU's time, and no more */
}

/* ---- quota ------------------------------------------------------------------------------------------------------ */

static void *spin(void *argument)
{
	uint64_t i = (uint64_t)(uintptr_t)argument;

	while (!fg_load_relaxed(&shares.stop)) {
		assert(sched_getcpu() == 0);
		fg_cycles();
	}
	shares.cpu_ns[i] = fgi_now_ns(CLOCK_THREAD_CPUTIME_ID);
	return NULL;
}

/* With --cost quota=0.5 --cost cpuset=1. */
static void quota(void)
{
	pthread_t threads[2];
	uint64_t began = now_ns();
	cpu_set_t set;
	double share;

	assert(sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) == 1);
	for (uint64_t i = 0; i < 2; i++)
		assert(pthread_create(&threads[i], NULL, spin, (void *)(uintptr_t)i) == 0);
	usleep(990000);
	fg_store_relaxed(&shares.stop, 1);
	for (int i = 0; i < 2; i++)
		assert(pthread_join(threads[i], NULL) == 0);
	share = (double)(shares.cpu_ns[0] + shares.cpu_ns[1]) / (double)(now_ns() - began);
	printf("share of a CPU: %.3f\n", share);
	assert(share > 0.48 && share < 0.56);
}

/* ---- futex ------------------------------------------------------------------------------------------------------ */

static struct {
	uint32_t word, other, next, order[4];
} waits;

static void *wait_in_turn(void *argument)
{
	uint64_t i = (uint64_t)(uintptr_t)argument;

	usleep((useconds_t)(1000 * (i + 1)));
	assert(fgi_futex_wait(&waits.word, 0, CLOCK_MONOTONIC, NULL) == 0);
	waits.order[fg_fetch_add_acq_rel(&waits.next, 1)] = (uint32_t)i;
	return NULL;
}

static void timeouts(void)
{
	uint64_t before = now_ns(), after;
	struct timespec until = fgi_timespec(before + 3000000);

	assert(fgi_futex_wait(&waits.word, 1, CLOCK_MONOTONIC, NULL) == EAGAIN);
	assert(fgi_futex_wait(&waits.word, 0, CLOCK_MONOTONIC, &until) == ETIMEDOUT);
	after = now_ns();
	assert(after - before >= 3000000 && after - before < 3500000);
	assert(fgi_futex_wait(&waits.word, 0, CLOCK_MONOTONIC, &until) == ETIMEDOUT); /* it is over */
	assert(now_ns() - after < 20000);
	before = now_ns();
	fgi_nap(10); /* a timer that is over when it is set ends a sleep no earlier than another one: after its slack */
	assert(now_ns() - before >= 50000);
}

static void futex(void)
{
	pthread_t threads[4];

	timeouts();
	assert(fgi_futex_wake(&waits.word, 1) == 0);
	for (uint64_t i = 0; i < 4; i++)
		assert(pthread_create(&threads[i], NULL, wait_in_turn, (void *)(uintptr_t)i) == 0);
	usleep(20000);
	assert(fgi_futex_wake(&waits.other, 4) == 0); /* nobody waits there */
	assert(fg_load_relaxed(&waits.next) == 0);
	assert(fgi_futex_wake(&waits.word, 1) == 1); /* the one that has waited longest */
	usleep(5000);
	assert(fg_load_acquire(&waits.next) == 1 && waits.order[0] == 0);
	assert(fgi_futex_wake(&waits.word, 100) == 3);
	for (int i = 0; i < 4; i++)
		assert(pthread_join(threads[i], NULL) == 0);
	assert(fgi_futex_wake(&waits.word, 1) == 0);
}

/* ---- naps ------------------------------------------------------------------------------------------------------- */

static struct {
	uint64_t began, woke[2];
	uint64_t cpu_ns;
} naps;

static void *nap_once(void *argument)
{
	uint64_t i = (uint64_t)(uintptr_t)argument;
	struct timespec until = fgi_timespec(naps.began + 1000000 + 20000 * i);

	pin(0);
	assert(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == 0);
	naps.woke[i] = now_ns() - naps.began - 1000000;
	return NULL;
}

static void *nap_often(void *unused)
{
	struct timespec nap = {0, 100000};

	pin(0);
	for (int i = 0; i < 100; i++)
		nanosleep(&nap, NULL);
	naps.cpu_ns = fgi_now_ns(CLOCK_THREAD_CPUTIME_ID) / 100;
	fg_store_relaxed(&shares.stop, 1);
	return unused;
}

/* With `far`: slack 50 us, an interrupt 6.5 us late, 5 us to set a timer. Measured beside a busy thread: 12.5 us of CPU
 * time for a sleep. */
static void sleep_together(void)
{
	pthread_t threads[2];

	naps.began = now_ns();
	for (uint64_t i = 0; i < 2; i++)
		assert(pthread_create(&threads[i], NULL, nap_once, (void *)(uintptr_t)i) == 0);
	for (int i = 0; i < 2; i++)
		assert(pthread_join(threads[i], NULL) == 0);
	printf("two sleepers, 20 us apart, wake after %lu and %lu ns\n", naps.woke[0], naps.woke[1]);
	assert(naps.woke[0] > 55000 && naps.woke[1] > 20000);
	assert(naps.woke[0] < 80000 && naps.woke[1] < 80000); /* not 20 us apart: one interrupt wakes both */
	assert(pthread_create(&threads[0], NULL, burn, NULL) == 0);
	assert(pthread_create(&threads[1], NULL, nap_often, NULL) == 0);
	for (int i = 0; i < 2; i++)
		assert(pthread_join(threads[i], NULL) == 0);
	printf("a sleep takes %lu ns of CPU time\n", naps.cpu_ns);
	assert(naps.cpu_ns > 10000 && naps.cpu_ns < 20000);
}

/* ---- order ------------------------------------------------------------------------------------------------------ */

static struct {
	uint64_t data __attribute__((aligned(64)));
	uint32_t flag __attribute__((aligned(64)));
	uint64_t sum __attribute__((aligned(64)));
} passed;

static void *pass_on(void *unused)
{
	(void)unused;
	for (uint32_t i = 1; i <= 1000; i++) {
		passed.data = i;
		assert(passed.data == i);
		fg_store_release(&passed.flag, i);
		while (fg_load_acquire(&passed.flag) != 0)
			fg_pause();
	}
	return NULL;
}

static void *take_over(void *unused)
{
	(void)unused;
	for (uint32_t i = 1; i <= 1000; i++) {
		while (fg_load_acquire(&passed.flag) != i)
			fg_pause();
		assert(passed.data == i);
		fg_fetch_add_relaxed(&passed.sum, i);
		fg_store_release(&passed.flag, 0);
	}
	return NULL;
}

static void order(void)
{
	pthread_t threads[2];

	assert(pthread_create(&threads[0], NULL, pass_on, NULL) == 0);
	assert(pthread_create(&threads[1], NULL, take_over, NULL) == 0);
	assert(pthread_join(threads[0], NULL) == 0 && pthread_join(threads[1], NULL) == 0);
	assert(passed.sum == 500500);
}

/* ---- ahead ------------------------------------------------------------------------------------------------------ */

static struct {
	uint32_t turn __attribute__((aligned(64)));
	uint32_t word __attribute__((aligned(64)));
	uint64_t data __attribute__((aligned(64)));
} away;

#define ROUNDS 200u

static void *take_away(void *unused)
{
	pin(1);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		while (fg_load_acquire(&away.turn) != 2 * i + 1)
			fg_pause();
		away.data++;
		fg_xchg_acquire(&away.word, i);
		fg_store_release(&away.turn, 2 * i + 2);
	}
	return unused;
}

/* A locked access of a line that the other CPU has, and an update of another one. */
static uint64_t section_cycles(bool ordered)
{
	uint64_t began = fg_cycles_ordered();

	fg_xchg_acquire(&away.word, 7);
	if (ordered)
		fg_cycles_ordered();
	away.data++;
	fg_xchg_acquire(&away.word, 8);
	return fg_cycles_ordered() - began;
}

/* Of two transfers, 244 ns with `far`: one at a time, or both at once. Measured: 300 and 162 ns, of which the readings
 * of the counter take 44 and 26. */
static void ahead(void)
{
	uint64_t cycles[2] = {0, 0};
	pthread_t thread;

	pin(0);
	assert(pthread_create(&thread, NULL, take_away, NULL) == 0);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		fg_store_release(&away.turn, 2 * i + 1);
		while (fg_load_acquire(&away.turn) != 2 * i + 2)
			fg_pause();
		cycles[i % 2] += section_cycles(i % 2);
	}
	assert(pthread_join(thread, NULL) == 0);
	for (int i = 0; i < 2; i++)
		printf("a section takes %.0f ns\n", (double)cycles[i] / 2.596 / (ROUNDS / 2.0));
	assert(cycles[0] < 190 * 2.596 * ROUNDS / 2 && cycles[1] > 250 * 2.596 * ROUNDS / 2);
}

/* ---- what never ends -------------------------------------------------------------------------------------------- */

static void deadlock(void)
{
	fgi_futex_wait(&waits.word, 0, CLOCK_MONOTONIC, NULL);
}

static void endless(void)
{
	while (fg_load_relaxed(&waits.word) == 0)
		fg_pause();
}

static void look_at_clock(void)
{
	while (now_ns())
		;
}

static void *sleep_for_ever(void *unused)
{
	pause();
	return unused;
}

static void too_many(void)
{
	pthread_t thread;

	for (;;)
		assert(pthread_create(&thread, NULL, sleep_for_ever, NULL) == 0);
}

static const struct simulated_case cases[] = {{"fairness", fairness},   {"quota", quota},     {"futex", futex},
					      {"naps", sleep_together}, {"order", order},     {"ahead", ahead},
					      {"deadlock", deadlock},   {"endless", endless}, {"clock", look_at_clock},
					      {"threads", too_many}};

int fgb_main(int argc, char **argv)
{
	return run_case(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
