/* SPDX-License-Identifier: MIT */
/* Many locks, each contended at least once: more than the pool has objects for.
 *
 *   many_locks LOCKS THREADS
 *
 * The first thread holds a lock while a second one waits for it in earnest, so that the lock becomes a contended one;
 * meanwhile the others take locks at random. Then every lock is used once more, and half of them are destroyed and used
 * again. */
#include FGI_LOCK_FILE

#include <sched.h>
#include <sys/resource.h>

#include "src/node.h"
#include "tests/stress/hostile_monitor.h"

static struct counted {
	struct fg_lock lock;
	uint32_t count;
} * locks;
static uint32_t number, stop, asked, answered;

static void add(uint32_t i)
{
	fgi_lock(&locks[i].lock);
	locks[i].count++;
	fgi_unlock(&locks[i].lock);
}

/* Waits for each lock that the first thread says it holds. */
static void *second(void *unused)
{
	(void)unused;
	for (uint32_t i = 0; i < number; i++) {
		while (fg_load_acquire(&asked) <= i)
			sched_yield();
		fg_store_release(&answered, i + 1);
		add(i);
	}
	return NULL;
}

static void *any(void *argument)
{
	uint64_t seed = (uintptr_t)argument, entered = 0;

	for (; !fg_load_relaxed(&stop); entered++)
		add((uint32_t)(hostile_random(&seed) >> 20) % number);
	return (void *)entered;
}

static void contend_all(void)
{
	pthread_t waiter = check_thread(second, NULL);

	for (uint32_t i = 0; i < number; i++) {
		fgi_lock(&locks[i].lock);
		fg_store_release(&asked, i + 1);
		while (fg_load_acquire(&answered) <= i)
			sched_yield();
		for (int turn = 0; turn < 20; turn++)
			fg_pause(); /* it waits by now, mostly */
		locks[i].count++;
		fgi_unlock(&locks[i].lock);
	}
	check_join(waiter);
}

static void use_again(void)
{
	for (uint32_t i = 0; i < number; i++)
		add(i);
	for (uint32_t i = 0; i < number; i += 2) {
#ifdef FGI_LOCK_HAS_DESTROY
		fgi_lock_destroy(&locks[i].lock);
#endif
		memset(&locks[i].lock, 0, sizeof(locks[i].lock));
		add(i);
	}
}

int main(int argc, char **argv)
{
	pthread_t thread[64];
	unsigned int threads;
	uint64_t sum = 0, expected;
	struct rusage usage;

	CHECK(argc == 3, "usage: many_locks LOCKS THREADS");
	number = (uint32_t)atoi(argv[1]);
	threads = (unsigned int)atoi(argv[2]);
	CHECK(number > 0 && threads >= 1 && threads <= 64);
	locks = calloc(number, sizeof(*locks));
	CHECK(locks);
	check_watchdog(300);
	for (uintptr_t i = 0; i < threads; i++)
		thread[i] = check_thread(any, (void *)(i + 1));
	contend_all();
	fg_store_relaxed(&stop, 1);
	expected = 2ull * number + number + number / 2 + number % 2;
	for (unsigned int i = 0; i < threads; i++)
		expected += (uintptr_t)check_join(thread[i]);
	use_again();
	for (uint32_t i = 0; i < number; i++)
		sum += locks[i].count;
	CHECK(sum == expected, "lost update: %lu of %lu", (unsigned long)sum, (unsigned long)expected);
	CHECK(fg_thread.held == 0, "held %d", fg_thread.held);
	getrusage(RUSAGE_SELF, &usage);
	printf("%u locks, %u threads, %lu operations, %u nodes, %ld KiB in all\n", number, threads, (unsigned long)sum,
	       fgi_nodes_used(), usage.ru_maxrss);
	return 0;
}
