/* SPDX-License-Identifier: MIT */
/* The asymmetric fence: that it is one, that it says so where there is none, and that errno is left alone. */
#include "runtime/membarrier.h"

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/atomic.h"
#include "tests/check.h"
#include "tests/unit/forbid.h"

#define ROUNDS 50000

/* Two threads each say that they are there and look for the other (Dekker). With a compiler barrier on one side and the
 * expedited fence on the other, at least one of them sees the other. Without the fence both miss. */
static struct {
	uint32_t often __attribute__((aligned(64)));
	uint32_t seldom __attribute__((aligned(64)));
	uint32_t saw_seldom __attribute__((aligned(64)));
	uint32_t round __attribute__((aligned(64)));
	uint32_t answered __attribute__((aligned(64)));
	bool last;
} dekker;

/* Busy, so that both run when it happens; but on a machine with one CPU the other must have its turn. */
static void await(const uint32_t *word, uint32_t value)
{
	for (unsigned int spins = 1; fg_load_acquire(word) != value; spins++)
		if (spins % 1024 == 0)
			sched_yield();
}

static void *often(void *unused)
{
	bool last = false;

	for (uint32_t round = 1; !last; round++) {
		await(&dekker.round, round);
		last = dekker.last;
		fg_store_relaxed(&dekker.often, round);
		fg_compiler_barrier();
		fg_store_relaxed(&dekker.saw_seldom, fg_load_relaxed(&dekker.seldom) == round);
		fg_store_release(&dekker.answered, round);
	}
	return unused;
}

static void test_fence(void)
{
	pthread_t thread = check_thread(often, NULL);

	for (uint32_t round = 1; !dekker.last; round++) {
		bool saw_often;

		dekker.last = !check_goes_on((int)round - 1, ROUNDS);
		fg_store_release(&dekker.round, round);
		fg_store_relaxed(&dekker.seldom, round);
		CHECK(fgi_membarrier(), "this kernel has no membarrier");
		saw_often = fg_load_relaxed(&dekker.often) == round;
		await(&dekker.answered, round);
		CHECK(saw_often || dekker.saw_seldom, "round %u: each missed the other", round);
	}
	check_join(thread);
}

static void test_errno(void)
{
	errno = 4711;
	CHECK(fgi_membarrier());
	CHECK(errno == 4711);
	fgi_membarrier_start();
	CHECK(errno == 4711);
}

static void test_forbidden(void)
{
	forbid(SYS_membarrier);
	errno = 4711;
	CHECK(!fgi_membarrier(), "it claims a fence that it has not executed");
	fgi_membarrier_start();
	CHECK(errno == 4711);
}

int main(void)
{
	check_watchdog(500);
	test_errno();
	test_fence();
	test_forbidden();
	return 0;
}
