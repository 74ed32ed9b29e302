/* SPDX-License-Identifier: MIT */
/* A waiter at a read-write lock that another thread has taken out of the list sleeps until it is told. The other thread
 * may be an ordinary one on the CPU of a real-time waiter: awake, it would never be told. */
#include <sched.h>
#include <time.h>

#include "runtime/clock.h"
#include "sync/parked.h"
#include "sync/rwlock.h"
#include "tests/check.h"

#define DEADLINE_MS 500 /* longer than the 20 ms after which it acts by itself */
#define UNTOLD_MS 600
#define MOST 200 /* parks and yields, in all: it sleeps for 10 ms at a time */

static struct fgi_rwlock l;

static struct timespec in_ms(uint64_t ms)
{
	return fgi_timespec(fgi_now_ns(CLOCK_MONOTONIC) + ms * 1000000);
}

static void *read_it(void *deadline)
{
	int result = fgi_rwlock_read(&l, CLOCK_MONOTONIC, deadline);
	uint64_t awake = fg_thread.parks + fg_thread.spins;

	if (!result)
		fgi_rwlock_unlock(&l);
	CHECK(awake < MOST, "%d parks and yields", (int)awake);
	return (void *)(long)result;
}

static struct fgi_parked *take_out(void)
{
	struct fgi_parked *p = NULL;

	while (!p) {
		struct fgi_parked_list *list = fgi_parked_lock(&l);

		p = fgi_parked_next(list, &l, NULL);
		if (p)
			fgi_parked_remove(list, p);
		fgi_parked_unlock(list);
		sched_yield();
	}
	return p;
}

static void told_late(bool timed)
{
	struct timespec deadline = in_ms(DEADLINE_MS), untold = in_ms(UNTOLD_MS);
	struct fgi_parked *p;
	pthread_t reader;

	CHECK(fgi_rwlock_write(&l, CLOCK_MONOTONIC, NULL) == 0, "the lock was free");
	reader = check_thread(read_it, timed ? &deadline : NULL);
	p = take_out();
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &untold, NULL);
	fgi_rwlock_unlock(&l);
	fgi_parked_tell(p, FGI_PARKED_RETRY);
	CHECK_IS(check_join(reader), 0);
	CHECK_IS(l.word & FGI_RW_COUNT, 0);
}

int main(void)
{
	check_watchdog(60);
	told_late(true);
	told_late(false);
	return 0;
}
