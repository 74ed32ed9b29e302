/* SPDX-License-Identifier: MIT */
/* What a lock knows of its waiters (lock/default/waiters.h): each count for itself, full counts, and what another
 * process left there. */
#include "lock/default/waiters.h"

#include <errno.h>
#include <sys/wait.h>

#include "tests/check.h"

#define THREADS 4
#define ROUNDS 100000

static const struct {
	uint32_t one, most;
} counts[] = {{FGI_ONE_CLOCKED, 2047}, {FGI_ONE_NEEDY, 1023}, {FGI_ONE_WATCHER, 7}};

#define COUNTS (sizeof(counts) / sizeof(counts[0]))

static uint32_t number(uint32_t waiters, uint32_t one)
{
	return one == FGI_ONE_CLOCKED ? fgi_clocked(waiters)
	       : one == FGI_ONE_NEEDY ? fgi_needy(waiters)
				      : fgi_watchers(waiters);
}

static void check_counts(uint32_t waiters, uint32_t clocked, uint32_t needy, uint32_t watchers, bool hot)
{
	CHECK_IS(fgi_clocked(waiters), clocked);
	CHECK_IS(fgi_needy(waiters), needy);
	CHECK_IS(fgi_watchers(waiters), watchers);
	CHECK_IS(fgi_hot(waiters), hot);
}

static void test_join_and_leave(void)
{
	uint32_t waiters = fgi_waiters_none() | FGI_HOT, joined[COUNTS];

	for (size_t i = 0; i < COUNTS; i++) {
		joined[i] = fgi_join(&waiters, counts[i].one);
		CHECK(joined[i], "not counted");
	}
	check_counts(waiters, 1, 1, 1, true);
	CHECK(fgi_join(&waiters, FGI_ONE_CLOCKED) && fgi_join(&waiters, FGI_ONE_NEEDY));
	check_counts(waiters, 2, 2, 1, true);
	fgi_leave(&waiters, joined[0]);
	check_counts(waiters, 1, 2, 1, true);
	fgi_leave(&waiters, joined[1]);
	check_counts(waiters, 1, 1, 1, true);
	fgi_leave(&waiters, joined[2]);
	check_counts(waiters, 1, 1, 0, true);
	fgi_leave(&waiters, 0);
	check_counts(waiters, 1, 1, 0, true);
}

/* A full count stays what it is, and the counts beside it, whether they are empty or full, too. */
static void test_full(void)
{
	for (size_t i = 0; i < COUNTS; i++) {
		for (uint32_t others = 0; others < 2; others++) {
			uint32_t waiters = fgi_waiters_none() | others * (FGI_PROCESS - 1), one = counts[i].one, full;

			if (!others)
				for (uint32_t n = 0; n < counts[i].most; n++)
					CHECK(fgi_join(&waiters, one), "full at %u", n);
			CHECK_IS(number(waiters, one), counts[i].most);
			full = waiters;
			CHECK_IS(fgi_join(&waiters, one), 0);
			fgi_leave(&waiters, 0);
			CHECK_IS(waiters, full);
			fgi_leave(&waiters, fgi_waiters_none() + one);
			CHECK_IS(number(waiters, one), counts[i].most - 1);
			CHECK(fgi_join(&waiters, one), "not counted although the count is not full");
			CHECK_IS(waiters, full);
		}
	}
}

static void test_of_another_process(void)
{
	const uint32_t before = fgi_forks;

	for (uint32_t generation = 0; generation <= 2 * 127; generation += 2) {
		uint32_t waiters, joined, left;

		fgi_forks = generation;
		waiters = fgi_waiters_none() | (FGI_PROCESS - 1);
		joined = fgi_waiters_none() + FGI_ONE_NEEDY;
		check_counts(waiters, 2047, 1023, 7, true);
		fgi_forks = generation + 2; /* 127 forks later than 0 it is 0 again, and differs from 127 */
		check_counts(waiters, 0, 0, 0, false);
		left = waiters;
		fgi_leave(&waiters, joined);
		CHECK_IS(waiters, left);
		joined = fgi_join(&waiters, FGI_ONE_CLOCKED);
		CHECK(joined, "full of the parent's waiters");
		check_counts(waiters, 1, 0, 0, false);
		fgi_leave(&waiters, joined);
		CHECK_IS(waiters, fgi_waiters_none());
	}
	fgi_forks = before;
}

static void test_fork(void)
{
	uint32_t waiters = 0, joined = fgi_join(&waiters, FGI_ONE_CLOCKED), in_parent = waiters;
	int status;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		check_counts(waiters, 0, 0, 0, false);
		fgi_leave(&waiters, joined);
		CHECK_IS(waiters, in_parent);
		joined = fgi_join(&waiters, FGI_ONE_WATCHER);
		check_counts(waiters, 0, 0, 1, false);
		fgi_leave(&waiters, joined);
		check_counts(waiters, 0, 0, 0, false);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child failed: %x", (unsigned int)status);
	check_counts(waiters, 1, 0, 0, false);
}

static uint32_t shared;

static void *comes_and_goes(void *argument)
{
	uint32_t seed = (uint32_t)(uintptr_t)argument;

	for (int i = 0; i < ROUNDS; i++) {
		uint32_t r = random_from(&seed), a = fgi_join(&shared, counts[r % COUNTS].one),
			 b = fgi_join(&shared, counts[r / 8 % COUNTS].one);

		fgi_leave(&shared, r & 1 ? a : b);
		fgi_leave(&shared, r & 1 ? b : a);
	}
	return NULL;
}

/* Two watchers each are more than the count holds. */
static void test_at_the_same_time(void)
{
	pthread_t thread[THREADS];

	shared = FGI_HOT;
	for (uintptr_t i = 0; i < THREADS; i++)
		thread[i] = check_thread(comes_and_goes, (void *)(i + 1));
	for (int i = 0; i < THREADS; i++)
		check_join(thread[i]);
	check_counts(shared, 0, 0, 0, true);
}

int main(void)
{
	check_watchdog(500);
	fgi_self();
	test_join_and_leave();
	test_full();
	test_of_another_process();
	test_fork();
	test_at_the_same_time();
	return 0;
}
