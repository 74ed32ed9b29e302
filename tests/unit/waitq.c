/* SPDX-License-Identifier: MIT */
/* Falling asleep and being granted at the same time: a waiter without a mutex, a history or a time awake, and a thread
 * that grants it as soon as it is in the list. A grant that misses the sleeper leaves it hanging. */
#include "interpose/waitq.h"

#include <sched.h>

#include "tests/check.h"

#define ROUNDS 300000

static struct fgi_waitq q;
static bool last; /* this round is; set before the waiter joins */

static void *grant(void *unused)
{
	bool over = false;

	for (int i = 0; !over; i++) {
		struct fgi_waiter *w;

		for (int looks = 0; fgi_waitq_idle(&q); looks++)
			if (looks > 100)
				sched_yield();
		for (volatile int left = i % 512; left; left--)
			;
		w = fgi_waitq_take_first(&q);
		CHECK(w != NULL);
		over = last;
		fgi_waiters_grant(w);
	}
	return unused;
}

int main(void)
{
	pthread_t granter;
	struct fgi_waiter w;

	check_watchdog(60);
	fgi_waitq_join(&q, &w);
	CHECK(!fgi_waitq_idle(&q) && fgi_waitq_busy(&q) && !fgi_waiter_granted(&w));
	fgi_waiters_grant(fgi_waitq_take_first(&q));
	CHECK(fgi_waitq_idle(&q) && !fgi_waitq_busy(&q) && fgi_waiter_granted(&w));
	CHECK(fgi_waiter_sleep(&w, CLOCK_MONOTONIC, NULL)); /* at once */
	CHECK_IS(fgi_waitq_leave(&w), FGI_SIGNALLED);
	granter = check_thread(grant, NULL);
	for (int i = 0; !last; i++) {
		last = !check_goes_on(i, ROUNDS);
		fgi_waitq_join(&q, &w);
		while (!fgi_waiter_granted(&w))
			fgi_waiter_sleep(&w, CLOCK_MONOTONIC, NULL);
		CHECK_IS(w.state, FGI_SIGNALLED);
	}
	check_join(granter);
	CHECK(!fgi_waitq_busy(&q));
	return 0;
}
