/* SPDX-License-Identifier: MIT */
/* What signal handlers want while their thread has a bucket locked is done afterwards (sync/parked.h, P7): one of them
 * interrupts another, or the thread that unlocks, after each instruction; and more than the thread keeps. And the
 * buckets: which objects have one of their own, and how a bucket finds one of thousands of queues. */
#include "runtime/futex.h"

static void wake(uint32_t *word, int number);

#define fgi_futex_wake wake
#include "sync/parked.c"
#undef fgi_futex_wake

#include <signal.h>
#include <string.h>
#include <ucontext.h>

#include "tests/check.h"

static const char object;
static int wakes_inside, wakes_outside;

static void wake(uint32_t *word, int number)
{
	if (inside)
		wakes_inside++;
	else
		wakes_outside++;
	fgi_futex_wake(word, number);
}

/* A handler that jumps out of the system call leaves nothing behind. */
static void wakes_outside_only(void)
{
	struct fgi_parked_list *list = fgi_parked_lock(&object);

	list->word = 2;
	fgi_parked_unlock(list);
	CHECK_IS(wakes_inside, 0);
	CHECK_IS(wakes_outside, 1);
}

static int runs[3], runs_of_all, runs_of_others;

static void count(void *which)
{
	runs[*(const int *)which]++;
}

static void count_all(void)
{
	runs_of_all++;
}

static void count_others(void)
{
	runs_of_others++;
}

static const int numbers[3] = {0, 1, 2};

/* As a handler does: at once, or later. */
static void wants(int which)
{
	if (!fgi_parked_postpone(count, (void *)(uintptr_t)&numbers[which], count_all))
		count((void *)(uintptr_t)&numbers[which]);
}

static void check_runs(int first, int second, int third)
{
	CHECK_IS(runs[0], first);
	CHECK_IS(runs[1], second);
	CHECK_IS(runs[2], third);
	CHECK_IS(runs_of_all, 0);
	memset(runs, 0, sizeof(runs));
	for (int i = 0; i < POSTS; i++)
		CHECK_IS(posts[i].state, EMPTY);
}

static void more_than_it_keeps(void)
{
	struct fgi_parked_list *list = fgi_parked_lock(&object);

	for (int i = 0; i < POSTS; i++)
		wants(0);
	fgi_parked_unlock(list);
	check_runs(POSTS, 0, 0);
	list = fgi_parked_lock(&object);
	for (int i = 0; i <= POSTS; i++)
		wants(0);
	for (int i = 0; i < 2; i++)
		CHECK(fgi_parked_postpone(count, (void *)(uintptr_t)&numbers[0], count_others), "not yet");
	wants(0);
	CHECK_IS(runs[0] + runs_of_all + runs_of_others, 0);
	fgi_parked_unlock(list);
	CHECK_IS(runs[0], POSTS);
	CHECK_IS(runs_of_all, 1);
	CHECK_IS(runs_of_others, 1);
	runs[0] = runs_of_all = 0;
}

/* A handler that may lock a bucket, and is in the middle of that when the next one interrupts it. */
static void locks_and_is_interrupted(void)
{
	bool may = !inside;
	struct fgi_parked_list *list = may ? fgi_parked_lock(&object) : NULL;

	wants(1);
	wants(2);
	if (may)
		fgi_parked_unlock(list);
}

#ifdef __x86_64__
static int traps_left;

static void on_trap(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info;
	if (--traps_left == 0)
		locks_and_is_interrupted();
	if (traps_left <= 0)
		((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)0x100;
}

/* What handlers want, with the next one after `n` instructions. False: there are not so many. */
static bool interrupted(int n)
{
	struct fgi_parked_list *list = fgi_parked_lock(&object);

	traps_left = n;
	__asm__ volatile("pushfq\n orq $0x100, (%%rsp)\n popfq" ::: "memory", "cc");
	wants(0);
	fgi_parked_unlock(list);
	__asm__ volatile("pushfq\n andq $~0x100, (%%rsp)\n popfq" ::: "memory", "cc");
	if (traps_left > 0) {
		check_runs(1, 0, 0);
		return false;
	}
	check_runs(1, 1, 1);
	return true;
}

static void at_every_instruction(void)
{
	struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
	int n = 1;

	CHECK_IS(sigaction(SIGTRAP, &action, NULL), 0);
	while (interrupted(n))
		n++;
	CHECK(n > 50, "only %d instructions", n);
}
#endif

/* Of objects that the hash leads to one bucket, the first have one each. The others share what those do not use. All
 * find the same again. */
static void buckets_of_their_own(void)
{
	static char objects[64 * FGI_OWN_BUCKETS];
	unsigned int found[sizeof(objects)], alike[sizeof(objects)], n = 0, limit = FGI_OWN_BUCKETS;

	for (unsigned int i = 0; i < sizeof(objects); i++)
		if (fgi_hash_of(&objects[i], FGI_BUCKET_BITS) == fgi_hash_of(objects, FGI_BUCKET_BITS))
			alike[n++] = i;
	CHECK(n > FGI_BUCKET_TRIES, "%u", n);
	for (unsigned int i = 0; i < n; i++) {
		found[i] = fgi_bucket_of(&objects[alike[i]]);
		CHECK(found[i] < FGI_BUCKETS);
		CHECK(i >= FGI_BUCKET_TRIES || found[i] < limit, "%u: %u", i, found[i]);
		for (unsigned int j = 0; j < i; j++)
			CHECK(found[i] != found[j] || found[i] >= limit, "%u and %u: %u", i, j, found[i]);
	}
	CHECK(found[n - 1] >= limit, "%u", found[n - 1]);
	for (unsigned int i = 0; i < sizeof(objects); i++)
		(void)fgi_bucket_of(&objects[i]);
	for (unsigned int i = 0; i < n; i++)
		CHECK_IS(fgi_bucket_of(&objects[alike[i]]), found[i]);
}

#define PLACES 4096
#define QUEUES 2     /* of a place */
#define MOST_DEEP 40 /* a treap of so many random ranks is deeper once in a million */

static struct fgi_parked_list tree;
static struct fgi_parked nodes[PLACES][QUEUES][2]; /* two of a queue */
static const char places[PLACES][64];              /* as in an array of objects */

static int depth_below(const struct fgi_parked *p, int depth)
{
	int lower, higher;

	if (!p)
		return depth;
	lower = depth_below(p->lower, depth + 1);
	higher = depth_below(p->higher, depth + 1);
	return lower > higher ? lower : higher;
}

/* The bucket has these queues, in this order, and no other. */
static void check_tree(void)
{
	const struct fgi_parked *p = fgi_parked_after(&tree, NULL);
	int depth = depth_below(tree.queues, 0);

	for (int i = 0; i < PLACES; i++) {
		for (uint32_t q = 0; q < QUEUES; q++) {
			struct fgi_parked *node = nodes[i][q], *first = fgi_parked_first(&tree, places[i], q);

			if (first != (node[0].prev ? &node[0] : node[1].prev ? &node[1] : NULL))
				CHECK(false, "queue %u of %d", q, i);
			if (first && first->next != (node[0].prev && node[1].prev ? &node[1] : NULL))
				CHECK(false, "the second of queue %u of %d", q, i);
		}
		if (!fgi_parked_first(&tree, places[i], 0) && !fgi_parked_first(&tree, places[i], 1))
			continue;
		CHECK(p && p->object == places[i], "%d is not the next", i);
		p = fgi_parked_after(&tree, places[i]);
	}
	CHECK(!p);
	CHECK(depth <= MOST_DEEP, "%d deep", depth);
}

static void add_or_remove(struct fgi_parked *p, int place, uint32_t queue, bool second)
{
	if (p->prev) {
		fgi_parked_remove(&tree, p);
		return;
	}
	p->object = places[place];
	p->number = queue;
	fgi_parked_add(&tree, p, !second);
}

static void one_of_many(void)
{
	uint64_t random = 1;

	for (int i = 0; i < PLACES; i++)
		add_or_remove(&nodes[i][0][0], i, 0, false);
	check_tree();
	for (int i = 1; i <= 40 * PLACES; i++) {
		uint32_t drawn = (uint32_t)((random = random * 0x5851f42d4c957f2du + 1) >> 33), place = drawn % PLACES;
		uint32_t queue = drawn >> 12 & 1, second = drawn >> 13 & 1;

		add_or_remove(&nodes[place][queue][second], (int)place, queue, second);
		if (i % (4 * PLACES) == 0)
			check_tree();
	}
	for (int i = 0; i < PLACES * QUEUES * 2; i++)
		if ((&nodes[0][0][0])[i].prev)
			fgi_parked_remove(&tree, &(&nodes[0][0][0])[i]);
	CHECK(!tree.queues);
}

int main(void)
{
	check_watchdog(500);
	one_of_many();
	buckets_of_their_own();
	more_than_it_keeps();
	wakes_outside_only();
	locks_and_is_interrupted();
	check_runs(0, 1, 1);
#ifdef __x86_64__
	at_every_instruction();
#endif
	return 0;
}
