/* SPDX-License-Identifier: MIT */
/* A lock under all schedules: at most one owner (I1), no lost wake-up (I2), no lost update, a free lock at the end. Its
 * queue nodes are watched (I3). Three more drivers: a thread with bad luck gets the lock (I4); another thread unlocks,
 * and the child of a fork does (I6). */
#include "runtime/node.h"
#include "simulator/check/check.h"

/* The functions of the pool, as the lock calls them. */
static inline struct fg_queue_node *get_watched(uint64_t *tail)
{
	struct fg_queue_node *node;

	fgs_check_pool(FGS_GETS);
	node = fgi_node_get(tail);
	fgs_check_pool(FGS_OUTSIDE);
	return node;
}

static inline struct fg_queue_node *need_watched(uint64_t *tail)
{
	struct fg_queue_node *node;

	fgs_check_pool(FGS_GETS);
	node = fgi_node_need(tail);
	fgs_check_pool(FGS_OUTSIDE);
	return node;
}

static inline void put_watched(struct fg_queue_node *node)
{
	fgs_check_pool(FGS_GIVES);
	fgi_node_put(node);
	fgs_check_pool(FGS_OUTSIDE);
}

static inline void put_in_pool_watched(struct fg_queue_node *node)
{
	fgs_check_pool(FGS_GIVES);
	fgi_node_put_in_pool(node);
	fgs_check_pool(FGS_OUTSIDE);
}

#define fgi_node_get get_watched
#define fgi_node_need need_watched
#define fgi_node_put put_watched
#define fgi_node_put_in_pool put_in_pool_watched

#include FGI_LOCK_FILE

#include <pthread.h>

#include "simulator/check/monitor.h"
#include "simulator/check/ways.h"

#define VISITS 4u
#define NODES 24u

static struct {
	struct fg_lock lock;
	uint64_t inside __attribute__((aligned(64))); /* the thread that is in, + 1 */
	uint64_t count;
	uint64_t entered[8];
	uint64_t ended;  /* threads that will not take the lock again */
	uint64_t waits;  /* the unlucky thread does, */
	uint64_t passed; /* and was passed so often */
	uint64_t handed; /* the lock is to be released by thread 0 */
	uint64_t threads;
} shared;

static void begin(unsigned int threads)
{
	static uint64_t nowhere;
	struct fg_queue_node *node = fgi_node_get(&nowhere);

	shared.threads = threads;
	if (node) {
		fgs_check_nodes(node, NODES);
		fgi_node_put_in_pool(node);
	}
	fgs_check_stall(FGS_STALL_US);
	fgs_check_monitor();
}

/* What a section does. */
static void section(unsigned int index, uint64_t r)
{
	FGS_CHECK(!shared.inside, "threads %lu and %u are in at once", (unsigned long)shared.inside - 1, index);
	shared.inside = index + 1;
	shared.count++;
	if (r % 16 == 3)
		fgi_spin_times((uint32_t)(r >> 32) % 64);
	FGS_CHECK(shared.inside == index + 1, "a thread is in beside thread %u", index);
	shared.inside = 0;
}

static void visit(unsigned int index)
{
	uint64_t r = fgs_random() >> 16;

	if (!enter(&shared.lock, r >> 4))
		return;
	section(index, r);
	fgi_unlock(&shared.lock);
	shared.entered[index]++;
	fgs_check_progress();
}

static void thread(unsigned int index)
{
	for (unsigned int i = 0; i < VISITS; i++)
		visit(index);
	FGS_CHECK(fg_thread.held == 0, "thread %u holds %d locks at its end", index, fg_thread.held);
}

static void check_quiet(void)
{
	FGS_CHECK(fgi_trylock(&shared.lock), "the lock is left locked");
	fgi_unlock(&shared.lock);
#ifdef FGI_DEFAULT_WAITERS_H
	FGS_CHECK(!(fgi_waiters_here(shared.lock.waiters) % FGI_HOT), "nobody waits, and the lock counts waiters: %x",
		  shared.lock.waiters);
#endif
}

static void end(unsigned int threads)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < threads; i++)
		sum += shared.entered[i];
	FGS_CHECK(sum == shared.count, "%lu sections, and %lu updates", (unsigned long)sum,
		  (unsigned long)shared.count);
	check_quiet();
}

/* ---- I4: thread 0 has bad luck, and the others come back for the lock until it has had it ------------------------ */

#ifdef FGS_BYPASS
static void begin_unlucky(unsigned int threads)
{
	begin(threads);
	fgs_check_unlucky(0, &shared.inside);
}

static void unlucky(unsigned int index)
{
	if (index == 0) {
		shared.passed = 0;
		fg_store_relaxed(&shared.waits, 1);
		fgi_lock(&shared.lock);
		fg_store_relaxed(&shared.waits, 0);
		section(index, 0);
		fgi_unlock(&shared.lock);
		fg_store_relaxed(&shared.ended, 1);
		return;
	}
	while (!fg_load_relaxed(&shared.ended)) {
		fgi_lock(&shared.lock);
		section(index, 3 | (uint64_t)16 << 32);
		if (fg_load_relaxed(&shared.waits))
			FGS_CHECK(++shared.passed <= FGS_BYPASS, "I4: a waiter was passed %u times", FGS_BYPASS);
		fgi_unlock(&shared.lock);
		fgs_check_progress();
	}
}

static void end_unlucky(unsigned int threads)
{
	(void)threads;
	check_quiet();
}
#endif

/* ---- I6: thread 0 releases what the others have taken ------------------------------------------------------------ */

static void release_for_others(void)
{
	while (fg_load_acquire(&shared.ended) < shared.threads - 1) {
		if (fg_load_acquire(&shared.handed)) {
			fg_store_relaxed(&shared.handed, 0);
			fgi_unlock(&shared.lock);
			fgs_check_progress();
		}
		fgi_spin_once();
	}
}

static void handed(unsigned int index)
{
	if (index == 0) {
		release_for_others();
	} else {
		for (unsigned int i = 0; i < VISITS; i++) {
			fgi_lock(&shared.lock);
			section(index, fgs_random() >> 16);
			shared.entered[index]++;
			fg_store_release(&shared.handed, 1);
		}
		while (fg_load_acquire(&shared.handed))
			fgi_spin_once();
		fg_fetch_add_release(&shared.ended, 1);
	}
}

/* ---- I6: the child of a fork, in which thread 0 is alone, unlocks ------------------------------------------------ */

static void *of_child(void *index)
{
	thread((unsigned int)(uintptr_t)index);
	return NULL;
}

static void child(void)
{
	pthread_t threads[2];
	uint64_t before;

	fgs_check_pool(FGS_GIVES); /* the nodes of the threads that stayed in the parent */
	fgi_thread_before_fork();
	fgi_thread_after_fork();
	fgs_check_pool(FGS_OUTSIDE);
	FGS_CHECK(!fgi_trylock(&shared.lock), "I6: the child of a fork holds no lock that its parent held");
	shared.inside = shared.count = shared.entered[0] = shared.entered[1] = 0;
	fgi_unlock(&shared.lock);
	fgs_check_progress();
	for (uintptr_t i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, of_child, (void *)i))
			fgs_fail("cannot start a thread");
	for (unsigned int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	end(2);
	before = fgs_check_wakes();
	fgi_lock(&shared.lock);
	fgi_unlock(&shared.lock);
	FGS_CHECK(fgs_check_wakes() == before, "I6: the child of a fork wakes waiters that it does not have");
	fgs_check_end();
}

static void forked(unsigned int index)
{
	uint64_t r = fgs_random() >> 16;

	for (unsigned int i = 0; i < VISITS; i++) {
		if (index == 0 && i == r % 2) {
			fgi_lock(&shared.lock);
			fgi_spin_times((uint32_t)(r >> 8) % 2048); /* others come and wait */
			fgs_check_fork();
			child();
		}
		visit(index);
	}
}

const struct fgs_driver fgs_drivers[] = {
	{"lock", begin, thread, end},
#ifdef FGS_BYPASS
	{"unlucky", begin_unlucky, unlucky, end_unlucky},
#endif
	{"handed", begin, handed, end},
	{"forked", begin, forked, end},
	{NULL, NULL, NULL, NULL},
};
