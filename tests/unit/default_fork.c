/* SPDX-License-Identifier: MIT */
/* The child of a fork beside waiters: of all that stands in a default lock about threads that stayed in the parent,
 * nothing keeps the child's threads waiting. */
#include "tests/unit/crowd.h"

#include <sys/wait.h>

static struct fg_lock lock;

static void *waits(void *unused)
{
	(void)unused;
	fgi_lock(&lock);
	fgi_unlock(&lock);
	return NULL;
}

static void run_child(void (*child)(void))
{
	int status;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		check_watchdog(500);
		child();
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child failed: %x", (unsigned int)status);
}

static void works(void)
{
	check_lock_works(&lock);
}

/* The child of a child: another generation. */
static void grandchild(void)
{
	struct fg_lock of_parent = lock;

	run_child(works);
	check_lock_works(&lock);
	lock = of_parent;
	run_child(works);
}

static void releases(void)
{
	CHECK(fgi_self() == (uint32_t)getpid());
	CHECK_SECTIONS(1);
	fgi_unlock(&lock);
	CHECK(is_free(lock.word));
	CHECK_SECTIONS(0);
	check_lock_works(&lock);
}

/* Parked threads stay parked while the child uses the lock. */
static void test_with_waiters(void)
{
	pthread_t thread[3];

	for (uint32_t number = 1; number <= 3; number++) {
		fgi_lock(&lock);
		for (uint32_t i = 0; i < number; i++)
			thread[i] = check_thread(waits, NULL);
		await_parked(&lock, number);
		await_bits(&lock.word, NEEDY);
		run_child(releases);
		fgi_unlock(&lock);
		for (uint32_t i = 0; i < number; i++)
			check_join(thread[i]);
		check_lock_works(&lock);
	}
}

/* Every state in which a fork can find a free lock, without the threads that the state is about. */
static void test_states(void)
{
	const uint32_t waiters[] = {0,
				    FGI_ONE_CLOCKED,
				    FGI_ONE_NEEDY,
				    FGI_HOT,
				    FGI_HOT + FGI_ONE_WATCHER,
				    FGI_HOT + 2 * FGI_ONE_WATCHER + 3 * FGI_ONE_CLOCKED + FGI_ONE_NEEDY,
				    FGI_PROCESS - 1};

	for (uint32_t w = 0; w < 8; w++) {
		uint32_t word = (w & 1 ? NEEDY : 0) | (w & 2 ? DEMAND : 0) | (w & 4 ? PARKED : 0);

		for (size_t i = 0; i < sizeof(waiters) / sizeof(waiters[0]); i++) {
			lock = (struct fg_lock){.word = word, .waiters = fgi_waiters_none() + waiters[i]};
			run_child(works);
		}
	}
	run_child(grandchild);
	lock = (struct fg_lock){0};
}

/* A signal handler of a parked waiter forks. In the child that thread goes on waiting, alone. */
static uint32_t handled;
static bool in_child;

static void handler_forks(int signal)
{
	int status;
	pid_t pid = fork();

	(void)signal;
	CHECK(pid >= 0);
	if (pid == 0) {
		check_watchdog(500);
		in_child = true;
		fgi_unlock(&lock); /* of the parent's thread */
		return;
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child failed: %x", (unsigned int)status);
	fg_store_release(&handled, 1);
}

static void *waits_and_forks(void *unused)
{
	(void)unused;
	fgi_lock(&lock);
	if (in_child) {
		CHECK(lock.word == fgi_self() && fgi_self() == (uint32_t)getpid());
		CHECK(parked(&lock) == 0);
		fgi_unlock(&lock);
		check_lock_works(&lock);
		_exit(0);
	}
	fgi_unlock(&lock);
	return NULL;
}

static void test_waiter_forks(void)
{
	struct sigaction action = {.sa_handler = handler_forks};
	pthread_t thread;

	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	fgi_lock(&lock);
	thread = check_thread(waits_and_forks, NULL);
	await_parked(&lock, 1);
	CHECK(pthread_kill(thread, SIGUSR1) == 0);
	while (!fg_load_acquire(&handled))
		sched_yield();
	fgi_unlock(&lock);
	check_join(thread);
	check_lock_works(&lock);
}

int main(void)
{
	check_watchdog(500);
	fgi_self();
	test_with_waiters();
	test_states();
	test_waiter_forks();
	return 0;
}
