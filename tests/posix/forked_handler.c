/* SPDX-License-Identifier: MIT */
/* A signal handler forks at every third instruction of a wait, beside threads that wait with the same mutex. The child,
 * which lacks them, goes on with condition variables and threads of its own. */
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include "tests/posix/posix.h"

#define TRAP_FLAG 0x100
#define THREADS 3

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER, d = PTHREAD_COND_INITIALIZER;
static int traps_left, waiting, turn;
static pid_t child;

static void on_trap(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info;
	if (traps_left > 0 && --traps_left == 0)
		child = fork();
	if (traps_left == 0)
		((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
}

static void *wait_for_ever(void *cond)
{
	ok(pthread_mutex_lock(&m));
	waiting++;
	for (;;)
		ok(pthread_cond_wait(cond, &m));
	return NULL;
}

/* Stacks of threads that stayed in the parent are this one's now. */
static void *take_turns(void *number)
{
	char stack[4096];

	memset(stack, 0x5a, sizeof(stack));
	__asm__ volatile("" ::"r"(stack) : "memory");
	ok(pthread_mutex_lock(&m));
	for (int i = 0; i < 20; i++) {
		while (turn % THREADS != (int)(long)number)
			ok(pthread_cond_wait(&c, &m));
		turn++;
		ok(pthread_cond_broadcast(&c));
	}
	ok(pthread_cond_signal(&d));
	ok(pthread_mutex_unlock(&m));
	return NULL;
}

__attribute__((noreturn)) static void go_on(void)
{
	pthread_t threads[THREADS];

	alarm(WATCHDOG_SECONDS);
	for (long i = 0; i < THREADS; i++)
		threads[i] = check_thread(take_turns, (void *)i);
	for (int i = 0; i < THREADS; i++)
		check_join(threads[i]);
	_exit(0);
}

/* Returns false if a wait has not so many instructions. */
static bool forked_after(int instructions)
{
	const struct timespec gone = {1, 0};
	int status;

	ok(pthread_mutex_lock(&m));
	traps_left = instructions;
	__asm__ volatile("pushfq\n orq $0x100, (%%rsp)\n popfq" ::: "memory", "cc");
	(void)pthread_cond_timedwait(&c, &m, &gone);
	__asm__ volatile("pushfq\n andq $~0x100, (%%rsp)\n popfq" ::: "memory", "cc");
	ok(pthread_mutex_unlock(&m));
	if (traps_left > 0)
		return false;
	if (child == 0)
		go_on();
	CHECK_IS(waitpid(child, &status, 0), child);
	CHECK(status == 0, "forked after %d instructions: %#x", instructions, (unsigned int)status);
	return true;
}

int main(void)
{
	struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
	bool wait;

	if (!ours()) /* glibc's child waits for threads that it lacks */
		return 0;
	for (int i = 0; i < 4; i++)
		check_thread(wait_for_ever, i < 3 ? &c : &d);
	do {
		ok(pthread_mutex_lock(&m));
		wait = waiting < 4;
		ok(pthread_mutex_unlock(&m));
	} while (wait);
	ok(sigaction(SIGTRAP, &action, NULL));
	for (int n = 1; forked_after(n); n += 3)
		;
	_exit(0);
}
