/* SPDX-License-Identifier: MIT */
/* The spin count of a lock is what its waiters really do: two threads wait behind a held lock, and each one's count is
 * compared with the spin hints and yields that it executed, counted where they are executed.
 *
 *   spins LEAST     each waiter must busy-wait for LEAST spins before it parks or gets the lock; 0: it may park at once
 *
 * The owner releases the lock when each waiter has spun SPINS times or has parked, whichever comes first. */
#include <sched.h>

#include "runtime/arch/arch.h"
#include "runtime/atomic.h"
#include "runtime/sandbox.h"

static __thread uint64_t executed; /* by this thread: spin hints and yields */

static inline void executed_pause(void)
{
	fg_store_relaxed(&executed, executed + 1);
	fg_pause();
}

static inline void executed_yield(void)
{
	fg_store_relaxed(&executed, executed + 1);
	fgi_system_yield();
}

#define fg_pause executed_pause
#define fgi_system_yield executed_yield
#include FGI_LOCK_FILE
#undef fg_pause
#undef fgi_system_yield

#include "runtime/clock.h"
#include "runtime/futex.h"
#include "runtime/thread.h"
#include "tests/check.h"

#define WAITERS 2
#define SPINS 64u /* fewer than the shortest bound on spinning */
#define ROUNDS 20

static struct fg_lock lock;
static uint64_t least;

struct waiter {
	pthread_t thread;
	const uint64_t *executed; /* its own counter; NULL: it does not run yet */
	const struct fg_thread_block *block;
};

static void *waiter_main(void *argument)
{
	struct waiter *w = argument;

	fgi_self();
	w->block = &fg_thread;
	fg_store_release(&w->executed, &executed);
	fgi_lock(&lock);
	CHECK(fg_thread.spins == executed, "%lu spins counted, %lu executed", (unsigned long)fg_thread.spins,
	      (unsigned long)executed);
	CHECK(executed >= least, "%lu spins while the lock was held", (unsigned long)executed);
	fgi_unlock(&lock);
	return NULL;
}

static bool waiter_is_ready(const struct waiter *w)
{
	const uint64_t *spins = fg_load_acquire(&w->executed);

	return spins && (fg_load_relaxed(spins) >= SPINS || fg_load_relaxed(&w->block->parks) > 0);
}

int main(int argc, char **argv)
{
	struct waiter waiters[WAITERS];

	CHECK(argc == 2, "usage: spins LEAST");
	least = strtoull(argv[1], NULL, 10);
	check_watchdog(500);
	for (int round = 0; round < ROUNDS; round++) {
		memset(waiters, 0, sizeof(waiters));
		fgi_lock(&lock);
		CHECK(fg_thread.spins == 0 && executed == 0, "a free lock is not spun for");
		for (int i = 0; i < WAITERS; i++)
			waiters[i].thread = check_thread(waiter_main, &waiters[i]);
		for (int i = 0; i < WAITERS; i++)
			while (!waiter_is_ready(&waiters[i]))
				fgi_nap(100000);
		fgi_unlock(&lock);
		for (int i = 0; i < WAITERS; i++)
			check_join(waiters[i].thread);
	}
	return 0;
}
