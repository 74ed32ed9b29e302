/* SPDX-License-Identifier: MIT */
/* Falling asleep and being told at the same time: a waiter without a mutex, a history or a time awake, and a thread
 * that signals as soon as it is in the queue. A signal that misses the sleeper leaves it hanging. */
#include "sync/cond.c"

#include <sched.h>

#include "tests/check.h"

#define ROUNDS 300000

static struct fgi_cond c;
static const char mutex;
static const struct fgi_cond_mutexes no_mutexes;
static bool last; /* this round is; set before the waiter joins */

static void *signals(void *unused)
{
	bool over = false;

	for (int i = 0; !over; i++) {
		for (int looks = 0; !fg_load_relaxed(&c.waited); looks++)
			if (looks > 100)
				sched_yield();
		for (volatile int left = i % 512; left; left--)
			;
		CHECK(fgi_cond_busy(&c), "it is in no queue");
		over = last;
		fgi_cond_signal(&c);
	}
	return unused;
}

static void begin(struct waiter *w)
{
	*w = (struct waiter){.mutexes = &no_mutexes, .mutex = (void *)(uintptr_t)&mutex, .deadline = FGI_NEVER};
	join(&c, w);
}

/* Handlers signal more often than the thread keeps while it has a bucket locked: every waiter goes on, one with a
 * deadline as after a broadcast. */
static void wakes_all(void)
{
	struct fgi_cond conds[12] = {0};
	struct waiter waiters[12];
	struct fgi_parked_list *list;

	for (int i = 0; i < 12; i++) {
		waiters[i] = (struct waiter){.mutexes = &no_mutexes, .mutex = &conds[i]};
		join(&conds[i], &waiters[i]);
	}
	list = fgi_parked_lock(&conds[0]);
	for (int i = 0; i < 12; i++)
		fgi_cond_broadcast(&conds[i]);
	for (int i = 0; i < 12; i++)
		CHECK(!fgi_parked_told(&waiters[i].node), "%d: the bucket is locked", i);
	fgi_parked_unlock(list);
	for (int i = 0; i < 12; i++) {
		CHECK_IS(leave(&waiters[i]), BROADCAST);
		CHECK(!fgi_cond_busy(&conds[i]), "%d: nobody waits", i);
	}
}

int main(void)
{
	pthread_t signaller;
	struct waiter w;

	check_watchdog(500);
	begin(&w);
	CHECK(fgi_cond_busy(&c) && !fgi_parked_told(&w.node), "it waits");
	fgi_cond_signal(&c);
	CHECK(!c.waited && !fgi_cond_busy(&c) && fgi_parked_told(&w.node), "it is told");
	CHECK(sleep_once(&w), "at once");
	CHECK_IS(leave(&w), SIGNAL);
	begin(&w);
	CHECK_IS(leave(&w), NOTHING);
	CHECK(!fgi_cond_busy(&c), "it has left");
	fgi_cond_signal(&c);
	wakes_all();
	signaller = check_thread(signals, NULL);
	for (int i = 0; !last; i++) {
		last = !check_goes_on(i, ROUNDS);
		begin(&w);
		while (!fgi_parked_told(&w.node))
			sleep_once(&w);
		CHECK_IS(leave(&w), SIGNAL);
	}
	check_join(signaller);
	CHECK(!fgi_cond_busy(&c), "nobody waits");
	return 0;
}
