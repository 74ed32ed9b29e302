/* SPDX-License-Identifier: MIT */
/* No signal is lost to a thread that is cancelled at the same time, and none touches what the signaller destroys. */
#include <sys/mman.h>

#include "tests/posix/posix.h"

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t *c;
static int waiting, returned;
static bool takes_turns; /* a cancellation that comes last waits until a wait has returned */

static void unlock(void *arg)
{
	ok(pthread_mutex_unlock(arg));
}

static void *wait_once(void *arg)
{
	pthread_cond_t *cond = c;

	(void)arg;
	ok(pthread_mutex_lock(&m));
	pthread_cleanup_push(unlock, &m);
	tell(&waiting, waiting + 1);
	ok(pthread_cond_wait(cond, &m));
	tell(&returned, returned + 1);
	pthread_cleanup_pop(1);
	return NULL;
}

static pthread_t start_waiting(int n)
{
	pthread_t thread = check_thread(wait_once, NULL);

	await(&waiting, n);
	return thread;
}

static void idle(int spins)
{
	for (volatile int delay = spins; delay > 0; delay--)
		;
}

/* Returns with the mutex unlocked; signal and cancellation in all orders, at all distances. */
static void release_and_cancel(int round, pthread_t victim, int (*release)(pthread_cond_t *))
{
	ok(pthread_mutex_lock(&m));
	if (round % 3 == 0) {
		ok(pthread_cancel(victim));
		idle(round % 89 * 50);
	}
	ok(release(c));
	if (round % 3 == 1) {
		idle(round % 89 * 50);
		ok(pthread_cancel(victim));
	}
	ok(pthread_mutex_unlock(&m));
	if (round % 3 == 2) {
		if (takes_turns)
			await(&returned, 1);
		idle(round % 97 * 50);
		ok(pthread_cancel(victim));
	}
}

/* `victim` waits in front of `successor`. Exactly one of them returns from its wait. */
static int inherit(int round)
{
	pthread_t victim, successor;
	int cancelled;

	waiting = returned = 0;
	victim = start_waiting(1);
	successor = start_waiting(2);
	release_and_cancel(round, victim, pthread_cond_signal);
	cancelled = check_join(victim) == PTHREAD_CANCELED;
	if (cancelled && !__atomic_load_n(&returned, __ATOMIC_ACQUIRE)) {
		ok((long)check_join(successor)); /* hangs if the signal is lost */
		CHECK_IS(returned, 1);
		return cancelled;
	}
	ok(pthread_mutex_lock(&m));
	if (!cancelled && ours()) /* glibc may wake more than it must */
		CHECK_IS(returned, 1);
	ok(pthread_cond_signal(c));
	ok(pthread_mutex_unlock(&m));
	ok((long)check_join(successor));
	return cancelled;
}

static void broadcast(int round)
{
	pthread_t victim, successor;

	waiting = returned = 0;
	victim = start_waiting(1);
	successor = start_waiting(2);
	release_and_cancel(round, victim, pthread_cond_broadcast);
	check_join(victim);
	ok((long)check_join(successor));
}

/* A thread that waits on another condition variable and must not notice anything. */
static pthread_mutex_t bystander_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t bystander_cond = PTHREAD_COND_INITIALIZER;
static int bystander_waits, bystander_may_go;

static void *bystander(void *arg)
{
	ok(pthread_mutex_lock(&bystander_mutex));
	tell(&bystander_waits, 1);
	do
		ok(pthread_cond_wait(&bystander_cond, &bystander_mutex));
	while (!ours() && !bystander_may_go); /* glibc may wake it for nothing */
	CHECK(bystander_may_go);
	ok(pthread_mutex_unlock(&bystander_mutex));
	return arg;
}

/* The waiter was released, then cancelled; then the condition variable vanishes. Its cleanup may not look there. The
 * condition variables are all over the page, so that some have a static lock in common with the bystander's. */
static int vanish(int round)
{
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t victim;

	CHECK(page != MAP_FAILED);
	c = (pthread_cond_t *)(void *)(page + round % 500 * 8);
	waiting = returned = 0;
	victim = start_waiting(1);
	ok(pthread_mutex_lock(&m));
	ok(round % 2 ? pthread_cond_signal(c) : pthread_cond_broadcast(c));
	idle(round % 89 * 20);
	ok(pthread_cancel(victim));
	ok(pthread_cond_destroy(c));
	ok(munmap(page, 4096));
	ok(pthread_mutex_unlock(&m));
	return check_join(victim) == PTHREAD_CANCELED;
}

int main(void)
{
	static pthread_cond_t lasting = PTHREAD_COND_INITIALIZER;
	pthread_t other;
	int cancelled = 0;

	c = &lasting;
	for (int i = 0; goes_on(i, 12000); i++)
		cancelled += inherit(i);
	/* Both ends of the race, also where the machine is too busy to show them by itself. */
	for (int i = 0; cancelled == 0; i += 3)
		cancelled += inherit(i);
	takes_turns = true;
	CHECK(!inherit(2) || !ours()); /* glibc's signal may go to a thread that came later */
	takes_turns = false;
	for (int i = 0; goes_on(i, 1200); i++)
		broadcast(i);
	cancelled = 0;
	other = check_thread(bystander, NULL);
	await(&bystander_waits, 1);
	for (int i = 0; goes_on(i, 6000); i++)
		cancelled += vanish(i);
	CHECK(cancelled > 0 || !ours()); /* since glibc 2.41 its wait does not end by a cancellation that comes after */
	ok(pthread_mutex_lock(&bystander_mutex));
	bystander_may_go = 1;
	ok(pthread_cond_signal(&bystander_cond));
	ok(pthread_mutex_unlock(&bystander_mutex));
	check_join(other);
	return 0;
}
