/* SPDX-License-Identifier: MIT */
/* A collector of garbage stops another thread by a signal, wherever it is, and goes on with condition variables that
 * the stopped thread does not use. Here the thread is stopped after every fifth instruction of a wait and of a signal.
 * The collector has mutexes whose addresses an interposer's hash leads to the same number. */
#include <semaphore.h>
#include <signal.h>
#include <ucontext.h>

#include "tests/posix/posix.h"

#define TRAP_FLAG 0x100
#define PAIRS 4

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;

/* What the collector and its helper wait with. */
static struct pair {
	pthread_mutex_t mutex;
	pthread_cond_t wanted, done;
	bool want;
} * pairs[PAIRS];

static sem_t stopped, go_on;
static int traps_left;
static bool stops;

static void on_trap(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info;
	if (--traps_left > 0)
		return;
	((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
	if (!stops)
		return;
	stops = false;
	ok(sem_post(&stopped));
	while (sem_wait(&go_on) != 0)
		CHECK_IS(errno, EINTR);
}

static void *help(void *pair)
{
	struct pair *p = pair;

	ok(pthread_mutex_lock(&p->mutex));
	for (;;) {
		while (!p->want)
			ok(pthread_cond_wait(&p->wanted, &p->mutex));
		p->want = false;
		ok(pthread_cond_signal(&p->done));
	}
	return NULL;
}

static void ask(struct pair *p)
{
	ok(pthread_mutex_lock(&p->mutex));
	p->want = true;
	ok(pthread_cond_signal(&p->wanted));
	while (p->want)
		ok(pthread_cond_wait(&p->done, &p->mutex));
	ok(pthread_mutex_unlock(&p->mutex));
}

static void *collect(void *unused)
{
	for (;;) {
		while (sem_wait(&stopped) != 0)
			CHECK_IS(errno, EINTR);
		for (int i = 0; i < PAIRS; i++)
			ask(pairs[i]);
		ok(sem_post(&go_on));
	}
	return unused;
}

/* Returns false if the calls have not so many instructions. */
static bool stopped_after(int instructions)
{
	const struct timespec gone = {1, 0};

	ok(pthread_mutex_lock(&m));
	traps_left = instructions;
	stops = true;
	__asm__ volatile("pushfq\n orq $0x100, (%%rsp)\n popfq" ::: "memory", "cc");
	CHECK_IS(pthread_cond_timedwait(&c, &m, &gone), ETIMEDOUT);
	ok(pthread_cond_signal(&c));
	__asm__ volatile("pushfq\n andq $~0x100, (%%rsp)\n popfq" ::: "memory", "cc");
	ok(pthread_mutex_unlock(&m));
	return !stops;
}

static uint64_t number_of(const pthread_mutex_t *mutex)
{
	return (uint64_t)(uintptr_t)mutex * 0x9e3779b97f4a7c15u >> 56;
}

static struct pair *like(const pthread_mutex_t *mutex)
{
	struct pair *p;

	do {
		p = calloc(1, sizeof(*p));
		CHECK(p);
	} while (number_of(&p->mutex) != number_of(mutex));
	return p;
}

int main(void)
{
	struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
	int n = 1;

	ok(sem_init(&stopped, 0, 0));
	ok(sem_init(&go_on, 0, 0));
	for (int i = 0; i < PAIRS; i++) {
		pairs[i] = like(&m);
		check_thread(help, pairs[i]);
	}
	check_thread(collect, NULL);
	ok(sigaction(SIGTRAP, &action, NULL));
	while (stopped_after(n))
		n += 5; /* a bucket is locked for more */
	CHECK(n > 100, "only %d instructions", n);
	return 0;
}
