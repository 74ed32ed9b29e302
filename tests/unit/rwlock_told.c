/* SPDX-License-Identifier: MIT */
/* A waiter at a read-write lock that another thread has taken out of the list sleeps until it is told. The other thread
 * may be an ordinary one on the CPU of a real-time waiter: awake, it would never be told. */
#include <sched.h>
#include <time.h>

#include "runtime/clock.h"
#include "runtime/futex.h"
#include "sync/handover.h"
#include "tests/check.h"

#define UNTOLD_MS 100 /* longer than the 20 ms after which it acts by itself */
#define SLEEP_NS 10000000u
#define FEW 20 /* parks and yields, but for one a SLEEP_NS */

static struct fgi_rwlock l;
static struct timespec deadline;

static void *read_it(void *timed)
{
	uint64_t began = fgi_now_ns(CLOCK_MONOTONIC), sleeps;
	int result = fgi_rwlock_read(&l, FGI_DEADLINE(CLOCK_MONOTONIC, timed ? &deadline : NULL));
	uint64_t awake = fg_thread.parks + fg_thread.spins;

	if (!result)
		fgi_rwlock_unlock(&l);
	sleeps = (fgi_now_ns(CLOCK_MONOTONIC) - began) / SLEEP_NS;
	CHECK(awake < sleeps + FEW, "%d parks and yields", (int)awake);
	return (void *)(long)result;
}

static struct fgi_parked *take_out(void)
{
	struct fgi_parked *p = NULL;

	while (!p) {
		struct fgi_parked_list *list = fgi_parked_lock(&l);

		p = fgi_parked_next(list, &l, NULL);
		if (p) {
			fgi_parked_remove(list, p);
			fgi_rw_set_flags(&l, list);
		}
		fgi_parked_unlock(list);
		sched_yield();
	}
	return p;
}

static void told_late(bool timed)
{
	struct fgi_parked *p;
	pthread_t reader;

	deadline = (struct timespec){INT32_MAX, 0};
	CHECK(fgi_rwlock_write(&l, FGI_NEVER) == 0, "the lock was free");
	reader = check_thread(read_it, timed ? &l : NULL);
	p = take_out();
	__atomic_store_n(&deadline.tv_sec, 0, __ATOMIC_RELAXED);
	fgi_nap(UNTOLD_MS * 1000000u);
	/* It is no longer its business to keep others out. */
	CHECK_IS(__atomic_load_n(&l.word, __ATOMIC_RELAXED), fgi_self());
	fgi_rwlock_unlock(&l);
	fgi_parked_tell(p, FGI_PARKED_RETRY);
	CHECK_IS(check_join(reader), 0);
	CHECK_IS(l.word & FGI_RW_HELD, 0);
}

int main(void)
{
	check_watchdog(500);
	told_late(true);
	told_late(false);
	return 0;
}
