/* SPDX-License-Identifier: MIT */
/* A writer waits for the readers that stand in the table (sync/readers.h) however often they come and go there: only
 * its deadline ends the wait without the lock. The test plays the readers. */
#include <errno.h>
#include <sched.h>
#include <time.h>

#include "runtime/clock.h"
#include "runtime/futex.h"
#include "sync/handover.h"
#include "tests/check.h"

#define TIMES 200000

static struct fgi_rwlock l;

static struct timespec in_ms(uint64_t ms)
{
	return fgi_timespec(fgi_now_ns(CLOCK_MONOTONIC) + ms * 1000000);
}

static uint64_t *a_reader_stands_there(void)
{
	uint64_t *entry = fgi_readers_entry(&l);

	l = (struct fgi_rwlock){.word = FGI_RW_BIASED | FGI_RW_ENTRIES};
	CHECK(fgi_readers_enter(entry, &l), "the entry is free");
	return entry;
}

static void *write_it(void *deadline)
{
	int result = fgi_rwlock_write(&l, FGI_DEADLINE(CLOCK_MONOTONIC, deadline));

	if (!result)
		fgi_rwlock_unlock(&l);
	return (void *)(long)result;
}

static void readers_come_and_go(struct timespec *deadline)
{
	uint64_t *entry = a_reader_stands_there();
	pthread_t writer = check_thread(write_it, deadline);
	int times = 0;

	while (times < TIMES) {
		CHECK(fgi_readers_leave(entry, &l), "a reader stood there");
		if (!(__atomic_load_n(&l.word, __ATOMIC_RELAXED) & FGI_RW_ENTRIES))
			break; /* the writer has found the table without readers */
		while (!fgi_readers_enter(entry, &l))
			;
		times++;
	}
	if (times == TIMES)
		CHECK(fgi_readers_leave(entry, &l), "a reader stood there");
	CHECK_IS(check_join(writer), 0);
	CHECK_IS(l.word, 0);
}

static void a_deadline_ends_the_wait(void)
{
	uint64_t *entry = a_reader_stands_there();
	struct timespec soon = in_ms(20);

	CHECK_IS(check_join(check_thread(write_it, &soon)), ETIMEDOUT);
	CHECK(fgi_readers_leave(entry, &l), "a reader stood there");
	CHECK_IS(check_join(check_thread(write_it, NULL)), 0);
}

static void *sleep_for_it(void *unused)
{
	(void)unused;
	CHECK_IS(fgi_rwlock_write(&l, FGI_NEVER), 0);
	CHECK(fg_thread.parks > 0, "it was awake all the time");
	fgi_rwlock_unlock(&l);
	return NULL;
}

/* It says so in the entry before it sleeps. Readers stay away from the table for nine times as long as it waited. */
static void a_writer_sleeps(void)
{
	uint64_t *entry = a_reader_stands_there();
	pthread_t writer = check_thread(sleep_for_it, NULL);
	uint64_t left_ns;

	while (!(__atomic_load_n(entry, __ATOMIC_RELAXED) & 1))
		sched_yield();
	fgi_nap(30000000);
	left_ns = fgi_now_ns(CLOCK_MONOTONIC);
	CHECK(fgi_readers_leave(entry, &l), "a reader stood there");
	check_join(writer);
	CHECK((int32_t)(l.unbiased_until - fgi_rw_ticks(left_ns + 200000000)) > 0, "it rests too short");
}

int main(void)
{
	struct timespec late = in_ms(60000);

	check_watchdog(500);
	for (int i = 0; i < 200; i++)
		readers_come_and_go(i % 2 ? &late : NULL);
	a_deadline_ends_the_wait();
	a_writer_sleeps();
	return 0;
}
