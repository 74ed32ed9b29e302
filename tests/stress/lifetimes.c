/* SPDX-License-Identifier: MIT */
/* Threads, nodes and processes that end at inconvenient moments (I3, I6), while the mode changes all the time.
 *
 *   lifetimes short-lived [THREADS] | nested [ROUNDS] | abandoned THREADS [WAITS] | fork
 *
 * A test begins anew until the mode has changed often enough. */
#include FGI_LOCK_FILE

#include <sched.h>
#include <sys/wait.h>

#include "runtime/arch/arch.h"
#include "runtime/futex.h"
#include "runtime/node.h"
#include "tests/sections.h"
#include "tests/stress/hostile_monitor.h"

static struct fg_lock lock;
static uint64_t counter;

static bool enter_in_time(struct fg_lock *l, uint64_t ns)
{
	struct timespec soon;

	clock_gettime(CLOCK_MONOTONIC, &soon);
	soon.tv_nsec += (long)ns;
	if (soon.tv_nsec >= 1000000000) {
		soon.tv_nsec -= 1000000000;
		soon.tv_sec++;
	}
	return fgi_timedlock(l, FGI_DEADLINE(CLOCK_MONOTONIC, &soon)) == 0;
}

/* ---- 25,000 short-lived threads, or as many as are asked for -----------------------------------------------------
 * Each waits for a lock that is mostly held, some give up (and leave a node in the queue), and ends at once: the node
 * outlives its thread. */
#define SHORT_LIVED 25000
#define AT_ONCE 4

static void *short_lived(void *argument)
{
	if (!enter_in_time(&lock, 1000 * ((uintptr_t)argument % 20)))
		return (void *)0;
	counter++;
	for (int i = 0; i < 50; i++)
		fg_pause();
	fgi_unlock(&lock);
	return (void *)1;
}

static void test_short_lived(uintptr_t threads)
{
	pthread_t thread[AT_ONCE];
	uint64_t entered = 0;

	counter = 0;
	for (uintptr_t n = 0; n < threads; n += AT_ONCE) {
		bool closed = n / AT_ONCE % 2; /* every other group finds the lock held, gives up and ends */

		if (closed)
			fgi_lock(&lock);
		for (uintptr_t i = 0; i < AT_ONCE; i++)
			thread[i] = check_thread(short_lived, (void *)(n + i));
		for (int i = 0; i < AT_ONCE; i++) {
			bool got_in = check_join(thread[i]);

			CHECK(!(closed && got_in), "a thread got into a held lock");
			entered += got_in;
		}
		if (closed)
			fgi_unlock(&lock);
	}
	CHECK(entered == counter, "%lu entered, %lu counted", (unsigned long)entered, (unsigned long)counter);
	CHECK(fgi_nodes_used() < 1000, "nodes of dead threads are lost: %u in use", fgi_nodes_used());
	printf("%lu threads, %lu entered, %u nodes\n", (unsigned long)threads, (unsigned long)entered,
	       fgi_nodes_used());
}

/* ---- 1,000 nested locks ---- */
#define NESTED 1000
#define ROUNDS 4000

static struct fg_lock nest[NESTED];
static uint64_t depth[NESTED];
static unsigned int rounds;

static void *nested(void *argument)
{
	uint64_t seed = (uintptr_t)argument;

	for (unsigned int round = 0; round < rounds; round++) {
		unsigned int step = 1 + 2 * (unsigned int)(hostile_random(&seed) % 100);

		while (step % 5 == 0)
			step += 2; /* coprime to 1000, so the release order below visits every lock */
		for (unsigned int i = 0; i < NESTED; i++)
			fgi_lock(&nest[i]);
		CHECK_SECTIONS(NESTED);
		for (unsigned int i = 0; i < NESTED; i++) {
			unsigned int k = i * step % NESTED;

			depth[k]++;
			fgi_unlock(&nest[k]);
		}
	}
	CHECK_SECTIONS(0);
	return NULL;
}

static void test_nested(unsigned int n)
{
	pthread_t thread[2];

	rounds = n;
	memset(depth, 0, sizeof(depth));
	thread[0] = check_thread(nested, (void *)1);
	thread[1] = check_thread(nested, (void *)2);
	check_join(thread[0]);
	check_join(thread[1]);
	for (int i = 0; i < NESTED; i++)
		CHECK(depth[i] == 2 * rounds, "lock %d: %lu", i, (unsigned long)depth[i]);
	printf("%d nested locks, %u nodes\n", NESTED, fgi_nodes_used());
}

/* ---- waits that are given up, at every moment of a hand-over ----------------------------------------------------
 * Two locks whose holders now and then sleep or yield, and waiters whose timeout is about as long as a section: so
 * they leave the queue as its head, its tail, beside others that leave, and just when they are granted the lock. */
#define ABANDONERS 64 /* at most */
#define WAITS 400000

static unsigned int abandoners, waits;

static struct {
	struct fg_lock lock;
	uint64_t begun, ended;
} abandoned[2];

static void *abandoner(void *argument)
{
	uint64_t seed = 0x9e3779b97f4a7c15u * (uintptr_t)argument, entered = 0;

	for (unsigned int n = 0; n < waits / abandoners; n++) {
		uint64_t r = hostile_random(&seed);
		unsigned int k = (unsigned int)(r >> 50) % 2;

		if (r % 16 == 0)
			fgi_lock(&abandoned[k].lock);
		else if (!enter_in_time(&abandoned[k].lock, (r >> 8) % 60000))
			continue;
		CHECK(abandoned[k].begun == abandoned[k].ended, "two threads are in");
		abandoned[k].begun++;
		for (unsigned int pause = 0; pause < (r >> 20) % 200; pause++)
			fg_pause();
		if ((r >> 30) % 256 == 0)
			fgi_nap(30000);
		if ((r >> 30) % 256 == 1)
			sched_yield();
		abandoned[k].ended++;
		CHECK_SECTIONS(1);
		fgi_unlock(&abandoned[k].lock);
		entered++;
	}
	CHECK_SECTIONS(0);
	CHECK(fg_thread.node == 0);
	return (void *)(uintptr_t)entered;
}

static void test_abandoned(unsigned int threads, unsigned int n)
{
	pthread_t thread[ABANDONERS];
	uint64_t entered = 0;

	CHECK(threads >= 1 && threads <= ABANDONERS);
	abandoners = threads;
	waits = n;
	memset(abandoned, 0, sizeof(abandoned));
	for (uintptr_t i = 0; i < abandoners; i++)
		thread[i] = check_thread(abandoner, (void *)(i + 1));
	for (unsigned int i = 0; i < abandoners; i++)
		entered += (uintptr_t)check_join(thread[i]);
	CHECK(entered == abandoned[0].ended + abandoned[1].ended, "lost update");
	for (int k = 0; k < 2; k++) {
		CHECK(fgi_trylock(&abandoned[k].lock), "a lock is left locked");
		fgi_unlock(&abandoned[k].lock);
	}
	CHECK(fgi_nodes_used() < 1000, "nodes that were left are lost: %u in use", fgi_nodes_used());
	printf("%u waits, %lu entered, %u nodes\n", waits, (unsigned long)entered, fgi_nodes_used());
}

/* ---- fork while others wait for what the forking thread holds ---- */
static uint32_t stop_forking;

static void *contender(void *waits)
{
	while (!fg_load_relaxed(&stop_forking)) {
		if (waits)
			fgi_lock(&lock);
		else if (!enter_in_time(&lock, 20000))
			continue;
		counter++;
		fgi_unlock(&lock);
	}
	return NULL;
}

#define CHILD_VISITS 500

static void *child_worker(void *unused)
{
	(void)unused;
	for (int i = 0; i < CHILD_VISITS; i++) {
		fgi_lock(&lock);
		counter++;
		fgi_unlock(&lock);
	}
	return NULL;
}

static void child(uint64_t before)
{
	pthread_t thread[2];

	check_watchdog(500);
	CHECK_SECTIONS(1); /* what its parent had */
	CHECK(fgi_self() == (uint32_t)getpid(), "the child goes by its parent's name");
	CHECK(counter == before);
	fgi_unlock(&lock);
	thread[0] = check_thread(child_worker, NULL);
	thread[1] = check_thread(child_worker, NULL);
	check_join(thread[0]);
	check_join(thread[1]);
	CHECK(counter == before + 2 * CHILD_VISITS, "lost update in the child");
	_exit(0);
}

static void test_fork(void)
{
	pthread_t thread[3];

	stop_forking = 0;
	for (int i = 0; i < 3; i++)
		thread[i] = check_thread(contender, i == 0 ? &lock : NULL);
	for (int i = 0; i < 200; i++) {
		uint64_t before;
		int status;
		pid_t pid;

		fgi_self();
		fgi_lock(&lock);
		before = counter;
		for (int pause = 0; pause < 1000 * (i % 8); pause++)
			fg_pause(); /* the others queue up */
		pid = fork();
		CHECK(pid >= 0);
		if (pid == 0)
			child(before);
		CHECK(counter == before, "another thread is in the section beside the parent");
		fgi_unlock(&lock);
		CHECK(waitpid(pid, &status, 0) == pid);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child failed: %x", (unsigned int)status);
	}
	fg_store_relaxed(&stop_forking, 1);
	for (int i = 0; i < 3; i++)
		check_join(thread[i]);
}

static void test(int argc, char **argv)
{
	if (!strcmp(argv[1], "short-lived"))
		test_short_lived(argc > 2 ? strtoul(argv[2], NULL, 10) : SHORT_LIVED);
	else if (!strcmp(argv[1], "nested"))
		test_nested(argc > 2 ? (unsigned int)atoi(argv[2]) : ROUNDS);
	else if (!strcmp(argv[1], "abandoned") && argc > 2)
		test_abandoned((unsigned int)atoi(argv[2]), argc > 3 ? (unsigned int)atoi(argv[3]) : WAITS);
	else if (!strcmp(argv[1], "fork"))
		test_fork();
	else
		CHECK(false, "unknown test %s", argv[1]);
}

int main(int argc, char **argv)
{
	CHECK(argc >= 2, "usage: lifetimes short-lived [THREADS] | nested [ROUNDS] | abandoned THREADS [WAITS] | fork");
	check_watchdog(500);
	hostile_start();
	do
		test(argc, argv);
	while (!hostile_seen());
	hostile_stop();
	return 0;
}
