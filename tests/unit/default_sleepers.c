/* SPDX-License-Identifier: MIT */
/* A mutex is held for long, as by a thread that sleeps: its many waiters stay asleep. Each soon sleeps without a clock,
 * and the more of them sleep, the longer: so many such sleeps have ended as the time for which the mutex has been held
 * allows. On a busy machine they end later. */
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

#include "runtime/futex.h"
#include "runtime/spin_budget.h"

static uint64_t short_sleeps, long_sleeps; /* that have begun */
static int sleep_and_count(uint32_t *word, uint32_t expected, const struct fgi_deadline *deadline, uint64_t until_ns,
			   uint32_t as);

#define fgi_sleep_until sleep_and_count
#include "tests/unit/crowd.h"
#undef fgi_sleep_until

#define WAITERS 200u
#define SECONDS 3
#define WAKES_PER_SECOND 10u
#define SHORT_SLEEPS 5u /* of a waiter: one with a clock; one of no time whenever a flag of the word is new, of 4 */

static struct fg_lock lock;

static int sleep_and_count(uint32_t *word, uint32_t expected, const struct fgi_deadline *deadline, uint64_t until_ns,
			   uint32_t as)
{
	bool is_long = until_ns >= fgi_now_ns(CLOCK_MONOTONIC) + FGI_LONGEST_SLEEP_NS / 2;

	fg_fetch_add_relaxed(is_long ? &long_sleeps : &short_sleeps, 1);
	return fgi_sleep_until(word, expected, deadline, until_ns, as);
}

static void *wait_for_lock(void *unused)
{
	(void)unused;
	fgi_lock(&lock);
	fgi_unlock(&lock);
	return NULL;
}

static void check_held_for_long(const char *what)
{
	pthread_t threads[WAITERS];
	uint64_t began = fgi_now_ns(CLOCK_MONOTONIC), begun, most;

	short_sleeps = long_sleeps = 0;
	fgi_lock(&lock);
	for (size_t i = 0; i < WAITERS; i++)
		threads[i] = check_thread(wait_for_lock, NULL);
	while (fg_load_relaxed(&long_sleeps) < WAITERS)
		usleep(1000);
	sleep(SECONDS);
	begun = fg_load_relaxed(&long_sleeps);
	most = WAITERS + WAKES_PER_SECOND * (fgi_now_ns(CLOCK_MONOTONIC) - began) / 1000000000u;
	CHECK(begun <= most, "%s: %lu long sleeps, not %lu", what, (unsigned long)begun, (unsigned long)most);
	begun = fg_load_relaxed(&short_sleeps);
	CHECK(begun <= SHORT_SLEEPS * WAITERS, "%s: %lu short sleeps", what, (unsigned long)begun);
	fgi_unlock(&lock);
	for (size_t i = 0; i < WAITERS; i++)
		check_join(threads[i]);
}

int main(void)
{
	static const struct fg_shared quiet = {.heartbeat_ns = INT64_MAX};

	check_watchdog(500);
	fgi_self();
	check_held_for_long("without a monitor");
	fgi_monitor_attach(&quiet);
	check_held_for_long("with one");
	return 0;
}
