/* SPDX-License-Identifier: MIT */
/* A mutex is held for long, as by a thread that sleeps: its many waiters stay asleep. */
#include <pthread.h>
#include <unistd.h>

#include "tests/unit/crowd.h"

#define WAITERS 200
#define SECONDS 3

static struct fg_lock lock;
static struct fg_thread_block *blocks[WAITERS];

static void *wait_for_lock(void *index)
{
	fgi_self();
	fg_store_release(&blocks[(size_t)index], &fg_thread);
	fgi_lock(&lock);
	fgi_unlock(&lock);
	return NULL;
}

static uint64_t sleeps(void)
{
	uint64_t all = 0;

	for (size_t i = 0; i < WAITERS; i++)
		all += fg_load_relaxed(&blocks[i]->parks);
	return all;
}

static void check_held_for_long(const char *what)
{
	pthread_t threads[WAITERS];
	uint64_t before;

	fgi_lock(&lock);
	for (size_t i = 0; i < WAITERS; i++)
		CHECK(pthread_create(&threads[i], NULL, wait_for_lock, (void *)i) == 0);
	for (size_t i = 0; i < WAITERS; i++)
		while (!fg_load_acquire(&blocks[i]))
			usleep(1000);
	sleep(2); /* until all are stuck */
	before = sleeps();
	sleep(SECONDS);
	before = sleeps() - before;
	CHECK(before <= 10 * SECONDS, "%s: %llu wake-ups in %d s", what, (unsigned long long)before, SECONDS);
	fgi_unlock(&lock);
	for (size_t i = 0; i < WAITERS; i++) {
		pthread_join(threads[i], NULL);
		blocks[i] = NULL;
	}
}

int main(void)
{
	static const struct fg_shared quiet = {.heartbeat_ns = INT64_MAX};

	check_watchdog(100);
	fgi_self();
	check_held_for_long("without a monitor");
	fgi_monitor_attach(&quiet);
	check_held_for_long("with one");
	return 0;
}
