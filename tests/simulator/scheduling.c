/* SPDX-License-Identifier: MIT */
/* What the model says of processors and of the scheduler, shown one by one. CMakeLists.txt gives each case its machine.
 *
 *   first-come   a line goes to the CPU that has waited longest, where no other one comes first
 *   nearest      where the nearest does, it does so before a CPU that waits for a bounded number of times
 *   smt          a busy hyperthread slows the other one of its core down; one that pauses does so less
 *   idle         the longer a CPU has idled, the longer it takes to wake up
 *   nice         shares of one CPU by nice level
 *   sched-idle   a SCHED_IDLE thread has what is left, and is preempted at once
 *   yields-away  as Linux 6.18 has it, a thread that yields gives up its slice's time
 *   yields-back  as Linux 6.9 has it, it only moves its deadline
 *   balance      threads that wait go to CPUs that idle, and from long queues to short ones
 *   membarrier   costs by the CPUs that run threads of the process; interrupts those */
#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/futex.h"
#include "tests/simulator/simulated.h"

#define THREADS 8

static struct {
	uint32_t stop, word;
	uint64_t woke;
	struct {
		uint64_t cpu_ns, looks; /* at `stop` */
	} __attribute__((aligned(64))) of[THREADS];
} all;

static pthread_t threads[THREADS];

static void start(uint64_t i, void *(*body)(void *))
{
	assert(pthread_create(&threads[i], NULL, body, (void *)(uintptr_t)i) == 0);
}

/* After `us` the first `count` threads stop. */
static void stop_after(useconds_t us, uint64_t count)
{
	usleep(us);
	fg_store_relaxed(&all.stop, 1);
	for (uint64_t i = 0; i < count; i++)
		assert(pthread_join(threads[i], NULL) == 0);
	fg_store_relaxed(&all.stop, 0);
}

/* Until it is to stop; then notes its CPU time. */
static void *compute(void *argument)
{
	uint64_t i = (uint64_t)(uintptr_t)argument;

	while (!fg_load_relaxed(&all.stop)) {
		fg_cycles();
		all.of[i].looks++;
	}
	all.of[i].cpu_ns = fgi_now_ns(CLOCK_THREAD_CPUTIME_ID);
	return NULL;
}

static double share(uint64_t i, uint64_t count)
{
	uint64_t sum = 0;

	for (uint64_t k = 0; k < count; k++)
		sum += all.of[k].cpu_ns;
	return (double)all.of[i].cpu_ns / (double)sum;
}

/* ---- who gets a line: eight CPUs of two sockets ask for it again and again --------------------------------------- */

#define TURNS 512u

static struct {
	uint32_t ready __attribute__((aligned(64)));
	uint32_t go __attribute__((aligned(64)));
	uint32_t count __attribute__((aligned(64)));
	uint32_t turn[THREADS][TURNS] __attribute__((aligned(64))); /* the numbers of each CPU's turns */
} line;

static void *ask(void *argument)
{
	uint32_t *turn = line.turn[(uintptr_t)argument];

	pin((int)(uintptr_t)argument);
	for (uint32_t i = 0; i < TURNS; i++)
		turn[i] = 1; /* its own lines are here then */
	fg_fetch_add_release(&line.ready, 1);
	while (!fg_load_acquire(&line.go))
		fg_pause();
	for (uint32_t i = 0; i < TURNS; i++)
		turn[i] = fg_fetch_add_relaxed(&line.count, 1);
	return NULL;
}

static void all_ask(void)
{
	for (uint64_t i = 1; i < THREADS; i++)
		start(i, ask);
	while (fg_load_acquire(&line.ready) < THREADS - 1)
		fg_pause();
	fg_store_release(&line.go, 1);
	ask(NULL);
	for (int i = 1; i < THREADS; i++)
		assert(pthread_join(threads[i], NULL) == 0);
}

/* From when all ask, until the first CPU has had all its turns: the turns of others from one of a CPU's own to its
 * next, at least and at most, and which part of the turns came from a CPU of the same socket. */
static struct gaps {
	uint32_t least, most;
	double stays;
} gaps_of_all(void)
{
	static uint8_t who[THREADS * TURNS];
	struct gaps g = {.least = UINT32_MAX};
	uint32_t begin = 10 * THREADS, end = UINT32_MAX, last[THREADS] = {0}, stays = 0;

	for (uint32_t cpu = 0; cpu < THREADS; cpu++) {
		for (uint32_t i = 0; i < TURNS; i++)
			who[line.turn[cpu][i]] = (uint8_t)cpu;
		if (line.turn[cpu][TURNS - 1] < end)
			end = line.turn[cpu][TURNS - 1];
	}
	for (uint32_t turn = 1; turn <= end; turn++) {
		uint32_t others = turn - last[who[turn]] - 1;

		last[who[turn]] = turn;
		if (turn < begin)
			continue;
		g.least = others < g.least ? others : g.least;
		g.most = others > g.most ? others : g.most;
		stays += who[turn] / 4 == who[turn - 1] / 4;
	}
	for (uint32_t cpu = 0; cpu < THREADS; cpu++) /* one that is kept waiting */
		g.most = end - last[cpu] > g.most ? end - last[cpu] : g.most;
	g.stays = stays / (double)(end + 1 - begin);
	printf("%u to %u turns of others between two of a CPU's; %.3f come from the same socket\n", g.least, g.most,
	       g.stays);
	return g;
}

/* With --cost nearest_first=0. */
static void first_come(void)
{
	struct gaps g;

	all_ask();
	g = gaps_of_all();
	assert(g.least == THREADS - 1 && g.most == THREADS - 1);
}

/* With --cost nearest_first=1 --cost bypasses=8: where its socket has the line, each of its four CPUs comes in turn.
 * The first that waits in the other socket is passed eight times, and has the line then; with it, so has its socket. */
static void nearest(void)
{
	struct gaps g;

	all_ask();
	g = gaps_of_all();
	assert(g.least == THREADS / 2 - 1 && g.most == THREADS - 1 + 8);
	assert(g.stays > 0.9);
}

/* ---- hyperthreads ----------------------------------------------------------------------------------------------- */

static void *load_beside(void *unused)
{
	pin(1);
	while (!fg_load_relaxed(&all.stop))
		;
	return unused;
}

static void *pause_beside(void *unused)
{
	pin(1);
	while (!fg_load_relaxed(&all.stop))
		fg_pause();
	return unused;
}

/* On CPU 0, which has idled: ns for 100,000 loads that its own cache answers. */
static double loads_take(void)
{
	uint64_t before;

	usleep(1000);
	before = now_ns();
	for (int i = 0; i < 100000; i++)
		fg_load_relaxed(&all.word);
	return (double)(now_ns() - before);
}

/* With --cost smt=1.5 --cost smt_pause=1.1, two threads of one core. */
static void smt(void)
{
	double alone, busy, pausing;

	pin(0);
	alone = loads_take();
	start(0, load_beside);
	busy = loads_take();
	stop_after(1, 1);
	start(0, pause_beside);
	pausing = loads_take();
	stop_after(1, 1);
	printf("beside a busy thread %.3f, beside one that pauses %.3f\n", busy / alone, pausing / alone);
	assert(busy / alone > 1.45 && busy / alone < 1.55);
	assert(pausing / alone > 1.05 && pausing / alone < 1.15);
}

/* ---- idle states ------------------------------------------------------------------------------------------------ */

static void *wait_once(void *unused)
{
	pin(1);
	assert(fgi_futex_wait(&all.word, 0, CLOCK_MONOTONIC, NULL) == 0);
	all.woke = now_ns();
	return unused;
}

static double wakes_after(useconds_t idled_us)
{
	uint64_t before;

	start(0, wait_once);
	usleep(idled_us);
	before = now_ns();
	assert(fgi_futex_wake(&all.word, 1) == 1);
	assert(pthread_join(threads[0], NULL) == 0);
	return (double)(all.woke - before);
}

/* 2, 10 and 60 us, the middle state after 200 us and the deep one after 1000. */
static void idle(void)
{
	double shallow, middle, deep;

	pin(0);
	shallow = wakes_after(100); /* of which it takes some until the thread sleeps */
	middle = wakes_after(400);
	deep = wakes_after(5000);
	printf("awake after %.0f, %.0f and %.0f ns\n", shallow, middle, deep);
	assert(middle - shallow > 7000 && middle - shallow < 9000);
	assert(deep - middle > 49000 && deep - middle < 51000);
}

/* ---- shares of a CPU -------------------------------------------------------------------------------------------- */

static void *compute_nicely(void *argument)
{
	uint64_t i = (uint64_t)(uintptr_t)argument;

	pin(0);
	assert(setpriority(PRIO_PROCESS, (id_t)gettid(), i ? 0 : -5) == 0);
	return compute(argument);
}

/* 3121 and 1024 parts. */
static void nice_levels(void)
{
	pin(1);
	start(0, compute_nicely);
	start(1, compute_nicely);
	stop_after(300000, 2);
	printf("share of nice -5 beside nice 0: %.3f\n", share(0, 2));
	assert(share(0, 2) > 0.73 && share(0, 2) < 0.78);
}

static void *compute_when_idle(void *argument)
{
	struct sched_param param = {0};

	pin(0);
	assert(sched_setscheduler(0, SCHED_IDLE, &param) == 0);
	return compute(argument);
}

static void *compute_there(void *argument)
{
	pin(0);
	return compute(argument);
}

/* 3 parts of 1027, but each time until a tick, of 4 ms; and a sleeper beside it is on its CPU at once. */
static void sched_idle(void)
{
	struct timespec nap = {0, 5000000};
	uint64_t late = 0;

	pin(0);
	start(0, compute_when_idle);
	start(1, compute_there);
	stop_after(300000, 2);
	printf("share of SCHED_IDLE: %.4f\n", share(0, 2));
	assert(share(0, 2) < 0.03);
	start(0, compute_when_idle);
	for (int i = 0; i < 20; i++) {
		uint64_t before = now_ns();

		nanosleep(&nap, NULL);
		late += now_ns() - before - 5000000;
	}
	stop_after(1, 1);
	printf("20 sleeps beside it: %.3f us late each\n", (double)late / 20e3);
	assert(late / 20 < 100000);
}

/* ---- yields ----------------------------------------------------------------------------------------------------- */

static void *yield_on(void *argument)
{
	uint64_t i = (uint64_t)(uintptr_t)argument;

	pin(0);
	while (!fg_load_relaxed(&all.stop))
		sched_yield();
	all.of[i].cpu_ns = fgi_now_ns(CLOCK_THREAD_CPUTIME_ID);
	return NULL;
}

static double share_of_yields(void)
{
	pin(1);
	start(0, yield_on);
	start(1, compute_there);
	stop_after(300000, 2);
	printf("share of a thread that yields beside one that computes: %.4f\n", share(0, 2));
	return share(0, 2);
}

static void yields_away(void)
{
	assert(share_of_yields() < 0.05);
}

static void yields_back(void)
{
	double part = share_of_yields();

	assert(part > 0.4 && part < 0.6);
}

/* ---- balancing -------------------------------------------------------------------------------------------------- */

static void *compute_anywhere(void *argument)
{
	cpu_set_t set;

	pin(0);
	CPU_ZERO(&set);
	CPU_SET(0, &set);
	CPU_SET(1, &set);
	assert(sched_setaffinity(0, sizeof(set), &set) == 0);
	return compute(argument);
}

static void *compute_on_second(void *argument)
{
	pin(1);
	return compute(argument);
}

/* Four threads that begin on the first of two CPUs: alone they have both; beside one that must stay on the second CPU
 * that one has a half or a third of it. */
static void balance(void)
{
	double used = 0;

	for (uint64_t i = 0; i < 4; i++)
		start(i, compute_anywhere);
	stop_after(50000, 4);
	for (uint64_t i = 0; i < 4; i++)
		used += (double)all.of[i].cpu_ns / 50e6;
	printf("four threads have %.3f CPUs\n", used);
	assert(used > 1.9 && used < 2.1);
	for (uint64_t i = 0; i < 4; i++)
		start(i, compute_anywhere);
	start(4, compute_on_second);
	stop_after(100000, 5);
	used = (double)all.of[4].cpu_ns / 100e6;
	printf("the fifth, which stays, has %.3f CPUs\n", used);
	assert(used > 0.3 && used < 0.65);
}

/* ---- membarrier ------------------------------------------------------------------------------------------------- */

static void *compute_from_second(void *argument)
{
	pin(1 + (int)(uintptr_t)argument);
	return compute(argument);
}

static double membarrier_takes(void)
{
	uint64_t before = now_ns();

	for (int i = 0; i < 1000; i++)
		assert(syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0);
	return (double)(now_ns() - before) / 1000;
}

static double looks_a_ns(uint64_t looks, uint64_t since)
{
	return (double)(all.of[0].looks - looks) / (double)(now_ns() - since);
}

/* 100 ns for each CPU that runs a thread of the process, which loses 500. */
static void membarrier_costs(void)
{
	double alone, beside, usual, now;
	uint64_t looks, began;

	pin(0);
	alone = membarrier_takes();
	for (uint64_t i = 0; i < 3; i++)
		start(i, compute_from_second);
	usleep(1000);
	looks = all.of[0].looks;
	began = now_ns();
	usleep(1000);
	usual = looks_a_ns(looks, began);
	looks = all.of[0].looks;
	began = now_ns();
	beside = membarrier_takes();
	now = looks_a_ns(looks, began);
	stop_after(1, 3);
	printf("alone %.0f ns, beside three threads %.0f, of which each loses %.0f\n", alone, beside,
	       (1 - now / usual) * beside);
	assert(beside - alone > 290 && beside - alone < 310);
	assert((1 - now / usual) * beside > 450 && (1 - now / usual) * beside < 550);
}

static const struct simulated_case cases[] = {{"first-come", first_come},
					      {"nearest", nearest},
					      {"smt", smt},
					      {"idle", idle},
					      {"nice", nice_levels},
					      {"sched-idle", sched_idle},
					      {"yields-away", yields_away},
					      {"yields-back", yields_back},
					      {"balance", balance},
					      {"membarrier", membarrier_costs}};

int fgb_main(int argc, char **argv)
{
	return run_case(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
