/* SPDX-License-Identifier: MIT */
/* Callers that were compiled with <flexguard/inline.h> beside callers that were not (inline_not.c), on one mutex. */
#include <flexguard/inline.h>

#include <errno.h>
#include <sys/wait.h>

#include "tests/check.h"

#define THREADS 6
#define ROUNDS 100000

void not_inlined_lock(struct fg_mutex *m);
void not_inlined_unlock(struct fg_mutex *m);

static struct fg_mutex mutex = FG_MUTEX_INIT;
static unsigned long begun, ended; /* protected by it */

static int enter(uint32_t dice)
{
	const struct timespec past = {0, 0};

	switch (dice % 8) {
	case 0:
		return fg_mutex_trylock(&mutex);
	case 1:
		return fg_mutex_timedlock(&mutex, CLOCK_MONOTONIC, &past);
	case 2:
	case 3:
		not_inlined_lock(&mutex);
		return 0;
	default:
		fg_mutex_lock(&mutex);
		return 0;
	}
}

/* Long enough that the others go to sleep, and have to be woken: by either kind of release. */
static void stay(void)
{
	const struct timespec nap = {.tv_nsec = 100000};

	nanosleep(&nap, NULL);
}

static void *work(void *argument)
{
	uint32_t seed = 2654435761u * (uint32_t)(uintptr_t)argument;
	unsigned long entered = 0;

	for (int round = 0; round < ROUNDS; round++) {
		uint32_t dice = random_from(&seed);

		if (enter(dice >> 8) != 0)
			continue;
		CHECK(begun == ended, "two threads are in");
		begun++;
		if (dice >> 16 == 0 || round % 1000 == 0)
			stay();
		ended++;
		entered++;
		if (dice & 1)
			fg_mutex_unlock(&mutex);
		else
			not_inlined_unlock(&mutex);
	}
#ifdef FG_INLINE_VERSION
	CHECK(fg_inline_thread.held == 0 && fg_inline_thread.pending == 0, "held %d", fg_inline_thread.held);
#endif
	return (void *)entered;
}

static void test_mixed(void)
{
	pthread_t thread[THREADS];
	unsigned long entered = 0;

	for (uintptr_t i = 0; i < THREADS; i++)
		thread[i] = check_thread(work, (void *)(i + 1));
	for (int i = 0; i < THREADS; i++)
		entered += (unsigned long)(uintptr_t)check_join(thread[i]);
	CHECK(entered == ended, "lost update: %lu of %lu", ended, entered);
	CHECK(fg_mutex_trylock(&mutex) == 0, "left locked");
	fg_mutex_unlock(&mutex);
}

/* The child goes by another name than its parent, and may hold what its parent held. */
static void test_fork(void)
{
	int status;
	pid_t pid;

	fg_mutex_lock(&mutex);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		uint32_t word;

		fg_mutex_unlock(&mutex);
		fg_mutex_lock(&mutex);
		memcpy(&word, &mutex, sizeof(word));
		CHECK((word & 0x3fffffff) == (uint32_t)getpid(), "the parent's name");
		fg_mutex_unlock(&mutex);
		test_mixed();
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child failed");
	CHECK(fg_mutex_trylock(&mutex) == EBUSY);
	fg_mutex_unlock(&mutex);
}

int main(void)
{
	check_watchdog(500);
	test_mixed();
	begun = ended = 0;
	test_fork();
	return 0;
}
