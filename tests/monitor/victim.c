// SPDX-License-Identifier: MIT
/* What the detection oracle (tests/checks/oracle) watches: threads that fight for two locks on one CPU, mostly for
 * one of them, and now and then for both, nested or crossed; and a real-time thread beside them that takes the CPU
 * away at arbitrary instructions, a few microseconds after it gave it back.
 *
 *   victim CPU [OTHER]      with OTHER, now and then all of them move from one of the two CPUs to the other
 *
 * It says on stdout, in one line, where the oracle has to look. For each byte on stdin it runs for one burst and says
 * so in a line; at the end of stdin it ends. A burst is short enough for the oracle's buffer, whenever that is read.
 * Compiled once for each lock, compiler and optimisation; see CMakeLists.txt. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include FGI_LOCK_FILE
#include "runtime/arch/arch.h"
#include "tests/check.h"
#include "worker/slice.h"
#ifndef FG_INTERPOSED
#include "runtime/monitor.h"
#include "runtime/node.h"
#endif

#define WORKERS 4
#define PREEMPTOR_PRIORITY 10
#define SHORT_SLICE_US 100u
#define BURST 2000         /* preemptions */
#define MOVE_EVERY 20      /* preemptions, if there is another CPU */
#define LONG_WAIT 30000u   /* cycles: others have run meanwhile */
#define NAP_EVERY 1500000u /* cycles */
#define WATCHDOG_S 500

struct worker {
	pthread_t thread;
	pid_t tid;
	const void *block; /* its thread block; under an interposer, whose own that is, its thread pointer */
	uint64_t locked, locked_outer; /* how often it has been inside */
};

/* `outer` is taken first. */
static struct fg_lock lock __attribute__((aligned(FG_CACHE_LINE))), outer __attribute__((aligned(FG_CACHE_LINE)));
static volatile uint64_t inside, inside_outer; /* protected by them */
static uint64_t last_nap;                      /* protected by `lock` */
static struct worker workers[WORKERS];
static pthread_barrier_t introduced, between_bursts;
static atomic_bool burst_over, stop;
static atomic_uint turns; /* of bursts: odd while one is under way */
static int cpu, other;

static void pin(pid_t tid)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	CHECK(sched_setaffinity(tid, sizeof(set), &set) == 0, "pinning to CPU %d: %m", cpu);
}

/* ---- what differs with an interposer, whose runtime is its own ---- */
#ifdef FG_INTERPOSED
static const void *block_of_this_thread(void)
{
	return (const void *)pthread_self();
}

static const char *lock_of(const struct fg_lock *l)
{
	return (const char *)(l + 1) - FGI_LOCK_BYTES;
}

static void choose_page(unsigned int burst)
{
	(void)burst;
}

static bool is_registered(void)
{
	return true; /* the oracle asks the monitor */
}

static const void *first_node(void)
{
	return NULL;
}

static void say_what_locks_know(void)
{
}
#else
static const void *block_of_this_thread(void)
{
	return &fg_thread;
}

static const struct fg_lock *lock_of(const struct fg_lock *l)
{
	return l;
}

/* With the monitor's page a waiter never queues behind a preempted head: it blocks. So two of three bursts are blind:
 * one without a page, where waiters queue and soon leave again, one with a page that never changes, where they stay.
 * What the monitor sees must not depend on it. */
static void choose_page(unsigned int burst)
{
	static const struct fg_shared quiet = {.heartbeat_ns = INT64_MAX};
	static const struct fg_shared *registered;

	if (!registered)
		registered = fgi_monitor_page;
	fgi_monitor_attach(burst % 3 == 0 ? registered : burst % 3 == 1 ? NULL : &quiet);
}

static bool is_registered(void)
{
	return fgi_monitor_page != &fgi_no_monitor;
}

/* The first node of the pool; its whole page is in memory from here on, so that the oracle can read it. */
static const void *first_node(void)
{
	static uint64_t no_queue;
	struct fg_queue_node *node = fgi_node_get(&no_queue);

	CHECK(node != NULL);
	fgi_node_put(node);
	return node;
}

static void say_what_locks_know(void)
{
	const struct fg_queue_node *node = first_node();

	for (int i = 0; i < WORKERS; i++) {
		const struct fg_thread_block *block = workers[i].block;

		fprintf(stderr, "block %p: held=%d node=%#lx pending=%#lx parks=%u spins=%lu\n", workers[i].block,
			block->held, (unsigned long)block->node, (unsigned long)block->pending, block->parks,
			(unsigned long)block->spins);
	}
	for (uint32_t i = 0; i < fgi_nodes_used() && i < FGI_NODES_CHUNK; i++)
		fprintf(stderr, "node %p: state=%u next=%#lx tail=%#lx owner=%#lx\n", (const void *)(node + i),
			node[i].state, (unsigned long)node[i].next, (unsigned long)node[i].tail,
			(unsigned long)node[i].owner);
}
#endif

/* From 6.12 on a thread may ask for a short slice: then the workers take turns often, and wait for each other in more
 * ways. Elsewhere the request is taken and means nothing. */
static void ask_for_short_slices(void)
{
	int error = fgb_set_slice(SHORT_SLICE_US);

	CHECK(error == 0 || error == ENOTSUP, "sched_setattr: %s", strerror(error));
}

static void loiter(uint32_t spins)
{
	while (spins--)
		__asm__ volatile("" ::: "memory");
}

static bool enter_timed(void)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += 20000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	return fgi_timedlock(&lock, FGI_DEADLINE(CLOCK_MONOTONIC, &until)) == 0;
}

/* 20 to 150 us of sleep, in two places.
 * Now and then inside: such a holder is not critical for the monitor, so the others busy-wait meanwhile. On a single
 * CPU it is the only time they do: a holder that is off CPU otherwise was preempted, and that makes them block. After a
 * long wait: otherwise the workers would soon all stand in the queue for good, each slice would be spent spinning, and
 * hardly any preemption would hit more than a spinning loop. */
static void nap(uint32_t dice)
{
	const struct timespec pause = {.tv_nsec = 20000 + (dice & 0xffff) * 2};

	clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

/* Takes the lock in one of the three ways; mostly the plain one. */
static bool enter(uint32_t choice)
{
	if (choice % 16 == 0)
		return enter_timed();
	if (choice % 16 == 1)
		return fgi_trylock(&lock);
	fgi_lock(&lock);
	return true;
}

static void enter_outer(struct worker *me)
{
	fgi_lock(&outer);
	inside_outer++;
	me->locked_outer++;
}

/* One in four takes both locks, and then releases them in either order. */
static void visit(struct worker *me, uint32_t dice)
{
	bool both = dice >> 26 & 1 && dice >> 27 & 1, crossed = both && dice >> 25 & 1;

	if (both)
		enter_outer(me);
	if (!enter(dice)) {
		if (both)
			fgi_unlock(&outer);
		return;
	}
	inside++;
	me->locked++;
	if (crossed) {
		fgi_unlock(&outer);
		loiter(dice >> 4 & 15);
	}
	loiter(dice >> 8 & 15);
	if (fg_cycles() - last_nap > NAP_EVERY) {
		nap(dice);
		last_nap = fg_cycles();
	}
	fgi_unlock(&lock);
	if (both && !crossed) {
		loiter(dice >> 4 & 15);
		fgi_unlock(&outer);
	}
}

/* At the end of a burst no worker is in a call on the lock, and all sleep. */
static void await_burst(void)
{
	pthread_barrier_wait(&between_bursts);
	pthread_barrier_wait(&between_bursts);
}

static void *work(void *argument)
{
	struct worker *me = argument;
	uint32_t seed;

	pin(0);
	ask_for_short_slices();
	me->tid = (pid_t)syscall(SYS_gettid);
	me->block = block_of_this_thread();
	seed = (uint32_t)me->tid * 2654435761u | 1;
	pthread_barrier_wait(&introduced);
	for (await_burst(); !atomic_load_explicit(&stop, memory_order_relaxed);) {
		uint32_t dice = random_from(&seed);
		uint64_t begin = fg_cycles();

		visit(me, dice);
		if (fg_cycles() - begin > LONG_WAIT)
			nap(dice);
		/* Now and then long enough to be preempted here: then the next visit comes some way into a slice. */
		loiter(dice >> 12 & (dice >> 24 ? 15 : 16383));
		if (atomic_load_explicit(&burst_over, memory_order_relaxed))
			await_burst();
	}
	return NULL;
}

/* All to the other CPU, in the middle of what they do. No worker runs here meanwhile, since this thread does. So at no
 * time two of them run, as the oracle expects. */
static void move(void)
{
	int from = cpu;

	cpu = other;
	other = from;
	for (int i = 0; i < WORKERS; i++)
		pin(workers[i].tid);
	pin(0);
}

static void disturb(uint32_t *seed)
{
	for (int i = 0; i < BURST; i++) {
		struct timespec pause = {.tv_nsec = 5000 + random_from(seed) % 55000};

		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
		if (cpu != other && i % MOVE_EVERY == 0)
			move();
	}
}

static void *preempt(void *unused)
{
	const struct sched_param priority = {.sched_priority = PREEMPTOR_PRIORITY};
	uint32_t seed = 0x9e3779b9;
	unsigned int burst = 0;
	char byte;

	(void)unused;
	pin(0);
	CHECK(sched_setscheduler(0, SCHED_FIFO, &priority) == 0, "becoming a real-time thread: %m");
	pthread_barrier_wait(&introduced);
	pthread_barrier_wait(&between_bursts);
	while (read(0, &byte, 1) == 1) {
		choose_page(burst++);
		atomic_fetch_add(&turns, 1);
		atomic_store(&burst_over, false);
		pthread_barrier_wait(&between_bursts);
		disturb(&seed);
		atomic_store(&burst_over, true);
		pthread_barrier_wait(&between_bursts);
		atomic_fetch_add(&turns, 1);
		CHECK(write(1, "burst\n", 6) == 6);
	}
	atomic_store(&stop, true);
	pthread_barrier_wait(&between_bursts);
	return NULL;
}

static void introduce(void)
{
	printf("victim pid=%d registered=%d locks=%p,%p nodes=%p workers=", (int)getpid(), is_registered(),
	       (const void *)lock_of(&lock), (const void *)lock_of(&outer), first_node());
	for (int i = 0; i < WORKERS; i++)
		printf("%s%d:%p", i ? "," : "", (int)workers[i].tid, workers[i].block);
	putchar('\n');
	fflush(stdout);
}

/* ---- a burst that does not end: who waits for what ---- */

/* What the kernel says of the worker: its state (R runs or waits for a CPU, S sleeps), where it is in the kernel. */
static void say_file_of(const struct worker *w, const char *name)
{
	char path[64], text[512];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/%s", (int)w->tid, name);
	file = fopen(path, "r");
	while (file && fgets(text, sizeof(text), file))
		fprintf(stderr, "%d %s: %s", (int)w->tid, name, text);
	if (file)
		fclose(file);
}

static void say_words(const char *name, const struct fg_lock *l)
{
	fprintf(stderr, "%s %p:", name, (const void *)l);
	for (const char *byte = (const char *)l; byte + sizeof(uint32_t) <= (const char *)(l + 1);
	     byte += sizeof(uint32_t)) {
		uint32_t word;

		memcpy(&word, byte, sizeof(word));
		fprintf(stderr, " %#x", word);
	}
	fputc('\n', stderr);
}

static void say_hang(void)
{
	fprintf(stderr, "hang: burst %u has not ended in %d s\n", atomic_load(&turns) / 2 + 1, WATCHDOG_S);
	say_words("lock", &lock);
	say_words("outer", &outer);
	for (int i = 0; i < WORKERS; i++) {
		fprintf(stderr, "worker %d: block %p, was inside %lu and %lu times\n", (int)workers[i].tid,
			workers[i].block, (unsigned long)workers[i].locked, (unsigned long)workers[i].locked_outer);
		say_file_of(&workers[i], "stat");
		say_file_of(&workers[i], "schedstat");
		say_file_of(&workers[i], "stack");
	}
	say_what_locks_know();
}

/* Waits for the preemptor's end. A burst may take WATCHDOG_S. */
static void await_end(pthread_t preemptor)
{
	for (;;) {
		unsigned int turn = atomic_load(&turns);
		struct timespec until;
		int error;

		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += WATCHDOG_S;
		error = pthread_clockjoin_np(preemptor, NULL, CLOCK_MONOTONIC, &until);
		if (error == 0)
			return;
		CHECK(error == ETIMEDOUT, "pthread_clockjoin_np: %s", strerror(error));
		if (turn % 2 && turn == atomic_load(&turns)) {
			say_hang();
			_exit(2);
		}
	}
}

int main(int argc, char **argv)
{
	uint64_t locked = 0, locked_outer = 0;
	pthread_t preemptor;

	cpu = argc > 1 ? atoi(argv[1]) : 0;
	other = argc > 2 ? atoi(argv[2]) : cpu;
	check_watchdog(WATCHDOG_S);
	pthread_barrier_init(&introduced, NULL, WORKERS + 2);
	pthread_barrier_init(&between_bursts, NULL, WORKERS + 1);
	preemptor = check_thread(preempt, NULL);
	for (int i = 0; i < WORKERS; i++)
		workers[i].thread = check_thread(work, &workers[i]);
	pthread_barrier_wait(&introduced);
	introduce();
	alarm(0); /* await_end watches */
	await_end(preemptor);
	for (int i = 0; i < WORKERS; i++) {
		check_join(workers[i].thread);
		locked += workers[i].locked;
		locked_outer += workers[i].locked_outer;
	}
	CHECK(locked == inside && locked_outer == inside_outer,
	      "%lu and %lu times locked, but the counters are %lu and %lu", (unsigned long)locked,
	      (unsigned long)locked_outer, (unsigned long)inside, (unsigned long)inside_outer);
	return 0;
}
