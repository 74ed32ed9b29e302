/* SPDX-License-Identifier: MIT */
/* After the instruction that releases it, unlocking does not touch the lock: its memory may be gone by then, because
 * the next owner has been, unlocked, and given it back. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "runtime/arch/arch.h"

static void *goes_with_release;

/* The worst that another thread can do, at the worst moment. */
static inline bool release_and_unmap(uint32_t *word, uint32_t kept)
{
	bool highest = fgi_asymmetric_release(word, kept);

	if (goes_with_release) {
		munmap(goes_with_release, 4096);
		goes_with_release = NULL;
	}
	return highest;
}

#define fgi_asymmetric_release release_and_unmap
#include "tests/unit/crowd.h"

#define ROUNDS 20000

static struct fg_lock *fresh(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(page != MAP_FAILED);
	return page;
}

static void check_at_the_release(uint32_t flags, uint32_t waiters)
{
	struct fg_lock *l = fresh();

	fgi_lock(l);
	fg_fetch_or_relaxed(&l->word, flags);
	l->waiters = fgi_waiters_none() + waiters;
	goes_with_release = l;
	fgi_unlock(l);
	CHECK(!goes_with_release);
	CHECK_SECTIONS(0);
}

static void test_at_the_release(void)
{
	static const struct fg_shared idle = {.heartbeat_ns = INT64_MAX, .cpus_seen = 1};
	static const struct fg_cpu cpus[FG_CPUS] = {{.idle = 1}};

	for (uint32_t i = 0; i < 8; i++) {
		uint32_t flags = (i & 1 ? NEEDY : 0) | (i & 2 ? DEMAND : 0) | (i & 4 ? PARKED : 0);

		check_at_the_release(flags, 0);
		check_at_the_release(flags, FGI_ONE_CLOCKED);
		fgi_monitor_attach_cpus(&idle, cpus); /* it would be useful to wake the one that has a clock */
		check_at_the_release(flags, FGI_ONE_CLOCKED);
		fgi_monitor_attach(NULL);
	}
}

/* The same for real: the next owner unmaps the lock. */
static struct fg_lock *given; /* NULL: there is no other round */
static uint32_t rounds_given, rounds_taken;

static void *successor(void *unused)
{
	for (uint32_t i = 1;; i++) {
		while (fg_load_acquire(&rounds_given) != i)
			sched_yield();
		if (!given)
			return unused;
		fgi_lock(given);
		fgi_unlock(given);
		munmap(given, 4096);
		fg_store_release(&rounds_taken, i);
	}
}

static void test_successor(void)
{
	pthread_t thread = check_thread(successor, NULL);
	uint32_t i;

	for (i = 1; check_goes_on((int)i - 1, ROUNDS); i++) {
		struct fg_lock *l = fresh();

		fgi_lock(l);
		given = l;
		fg_store_release(&rounds_given, i);
		switch (i % 4) { /* how far the waiter has come by then */
		case 0:
			await_parked(l, 1);
			break;
		case 1:
			await_bits(&l->word, NEEDY);
			break;
		default:
			for (uint32_t turn = 0; turn < i % 256; turn++)
				fg_pause();
		}
		fgi_unlock(l);
		while (fg_load_acquire(&rounds_taken) != i)
			sched_yield();
	}
	given = NULL;
	fg_store_release(&rounds_given, i);
	check_join(thread);
}

int main(void)
{
	check_watchdog(500);
	fgi_self();
	test_at_the_release();
	test_successor();
	return 0;
}
