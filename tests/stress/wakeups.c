/* SPDX-License-Identifier: MIT */
/* No wake-up is lost (I2): some thread that uses a lock is always awake (tests/stress/sleeps.h).
 *
 *   wakeups SECONDS THREADS [STALL_US]
 *
 * Short rounds: in each, some threads use one lock a few times and stop. So a sleeper that was forgotten soon has
 * nobody left who would wake it by the way. Sections and thoughts are of nothing, of about a hand-over, of longer than
 * any lock spins; some end with many stores to memory that the last owner had written, which are still on their way
 * when the release has been executed. The monitor is absent, quiet, or hostile (tests/stress/hostile_monitor.h).
 *
 * STALL_US: all threads may sleep for so long until a clock of the lock's own wakes one. Ends 1 when a wake-up was
 * lost. */
#include FGI_LOCK_FILE

#include <sched.h>

#include "simulator/check/ways.h"
#include "tests/sections.h"
#include "tests/stress/hostile_monitor.h"
#include "tests/stress/sleeps.h"

#define MOST_THREADS 64
#define VISITS 12u
#define LINES 64u
#define LOOK_NS 20000000
#define STUCK_LOOKS 15 /* 0.3 s in which nothing changed */
/* Of CPU time in which no visit ended: a queue is broken that spins. While a machine keeps the owner from its CPUs, all
 * threads together have used less. */
#define SPUN_NS 2000000000u
#define LATE_S 118 /* a round at the end of the time may take so long */

static struct {
	struct fg_lock lock;
	uint64_t begun __attribute__((aligned(128)));
	uint64_t ended;
	struct {
		uint32_t word __attribute__((aligned(64)));
	} line[LINES];
} shared __attribute__((aligned(128)));

static int threads;     /* in this round */
static uint64_t visits; /* of all threads */
static bool finished;
static pthread_barrier_t round_begins, round_ends;

static void pause_for(uint64_t pauses)
{
	while (pauses--)
		fg_pause();
}

static void doze(long ns)
{
	const struct timespec time = {.tv_nsec = ns};

	clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

static void section(uint64_t r)
{
	CHECK(shared.begun == shared.ended, "two threads are in");
	shared.begun++;
	switch (r % 8) {
	case 0:
		pause_for(r >> 8 & 2047);
		break;
	case 1:
		pause_for(r >> 8 & 63);
		break;
	case 2:
		sched_yield();
		break;
	case 3:
		doze(1000 + (long)(r >> 8) % 50000);
		break;
	default:
		break;
	}
	shared.ended++;
	if (r >> 4 & 1)
		for (unsigned int i = 0; i < LINES; i++)
			fg_store_relaxed(&shared.line[i].word, (uint32_t)r);
}

static void visit(uint64_t *seed)
{
	uint64_t r = hostile_random(seed);

	if (enter(&shared.lock, r >> 32)) {
		section(r);
		fgi_unlock(&shared.lock);
	}
	fg_fetch_add_relaxed(&visits, 1);
	if (r >> 5 & 1)
		pause_for(r >> 48 & 255);
	if ((r >> 12) % 16 == 0)
		doze(1000 + (long)(r >> 20) % 30000);
}

static void *worker(void *argument)
{
	int me = (int)(intptr_t)argument;
	uint64_t seed = 0x9e3779b97f4a7c15u * ((uint64_t)me + 1);

	for (;;) {
		pthread_barrier_wait(&round_begins);
		if (finished)
			return NULL;
		if (me < threads) {
			for (unsigned int n = 0; n < VISITS; n++)
				visit(&seed);
			CHECK_SECTIONS(0);
			sleeps_end_work();
		}
		pthread_barrier_wait(&round_ends);
	}
}

/* Looks now and then whether the round goes on. */
static void *supervise(void *stop)
{
	uint64_t events = 0, seen = 0, moved_at = 0; /* in CPU time */
	int stuck = 0;

	while (!fg_load_relaxed((const uint32_t *)stop)) {
		uint64_t now = fg_load_relaxed(&visits), used = fgi_now_ns(CLOCK_PROCESS_CPUTIME_ID);

		doze(LOOK_NS);
		stuck = sleeps_stuck(&events) ? stuck + 1 : 0;
		CHECK(stuck < STUCK_LOOKS, "lost wake-up: %d threads use the lock, and all of them sleep",
		      fg_load_relaxed(&sleeps.at_work));
		if (now != seen || fg_load_relaxed(&sleeps.at_work) == 0)
			moved_at = used;
		seen = now;
		CHECK(used - moved_at < SPUN_NS, "%d threads use the lock, and none gets on",
		      fg_load_relaxed(&sleeps.at_work));
	}
	return NULL;
}

static void choose_monitor(uint64_t r)
{
	static const struct fg_shared quiet = {.heartbeat_ns = INT64_MAX};
	const struct fg_shared *const pages[] = {NULL, &quiet, &hostile.page, &hostile.page};

	fgi_monitor_attach(pages[r % 4]);
}

int main(int argc, char **argv)
{
	uint64_t seed = 4711, rounds = 0, seconds, end, stall_ns = 0;
	pthread_t thread[MOST_THREADS], supervisor;
	uint32_t stop = 0;
	int most;

	CHECK(argc >= 3, "usage: wakeups SECONDS THREADS [STALL_US]");
	most = atoi(argv[2]);
	CHECK(most >= 2 && most <= MOST_THREADS);
	if (argc > 3)
		stall_ns = strtoull(argv[3], NULL, 10) * 1000;
	seconds = strtoull(argv[1], NULL, 10);
	check_watchdog((unsigned int)seconds + LATE_S);
	hostile_start();
	pthread_barrier_init(&round_begins, NULL, (unsigned int)most + 1);
	pthread_barrier_init(&round_ends, NULL, (unsigned int)most + 1);
	for (int i = 0; i < most; i++)
		thread[i] = check_thread(worker, (void *)(intptr_t)i);
	supervisor = check_thread(supervise, &stop);
	end = fgi_now_ns(CLOCK_MONOTONIC) + seconds * 1000000000u;
	for (; fgi_now_ns(CLOCK_MONOTONIC) < end || !hostile_seen(); rounds++) {
		uint64_t r = hostile_random(&seed);

		choose_monitor(r);
		threads = r >> 8 & 1 ? 2 : 2 + (int)((r >> 16) % (uint64_t)(most - 1));
		sleeps_begin_work(threads);
		pthread_barrier_wait(&round_begins);
		pthread_barrier_wait(&round_ends);
		CHECK(sleeps.longest_ns <= stall_ns,
		      "lost wake-up: all threads slept for %lu us, until a clock woke one",
		      (unsigned long)sleeps.longest_ns / 1000);
	}
	finished = true;
	pthread_barrier_wait(&round_begins);
	for (int i = 0; i < most; i++)
		check_join(thread[i]);
	fg_store_relaxed(&stop, 1);
	check_join(supervisor);
	printf("%lu rounds, %lu visits, %lu sleeps, %lu wake-ups, %lu ended by a clock; longest stall %lu us\n",
	       (unsigned long)rounds, (unsigned long)visits, (unsigned long)sleeps.sleeps, (unsigned long)sleeps.wakes,
	       (unsigned long)sleeps.clock_ends, (unsigned long)sleeps.longest_ns / 1000);
	hostile_stop();
	return 0;
}
