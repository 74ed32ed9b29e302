/* SPDX-License-Identifier: MIT */
/* A lock under all schedules: at most one owner (I1), no lost wake-up (I2), no lost update, a free lock at the end. */
#include FGI_LOCK_FILE

#include <pthread.h>

#include "simulator/check/monitor.h"
#include "simulator/check/ways.h"

#define VISITS 4u

static struct {
	struct fg_lock lock;
	uint64_t inside __attribute__((aligned(64))); /* the thread that is in, + 1 */
	uint64_t count;
	uint64_t entered[8];
} shared;

static void begin(unsigned int threads)
{
	(void)threads;
	fgs_check_stall(FGS_STALL_US);
	fgs_check_monitor();
}

static void thread(unsigned int index)
{
	for (unsigned int i = 0; i < VISITS; i++) {
		uint64_t r = fgs_random() >> 16;

		if (!enter(&shared.lock, r >> 4))
			continue;
		FGS_CHECK(!shared.inside, "threads %lu and %u are in at once", (unsigned long)shared.inside - 1, index);
		shared.inside = index + 1;
		shared.count++;
		if (r % 16 == 3)
			fgi_spin_times((uint32_t)(r >> 32) % 64);
		FGS_CHECK(shared.inside == index + 1, "a thread is in beside thread %u", index);
		shared.inside = 0;
		fgi_unlock(&shared.lock);
		shared.entered[index]++;
		fgs_check_progress();
	}
	FGS_CHECK(fg_thread.held == 0, "thread %u holds %d locks at its end", index, fg_thread.held);
}

static void end(unsigned int threads)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < threads; i++)
		sum += shared.entered[i];
	FGS_CHECK(sum == shared.count, "%lu sections, and %lu updates", (unsigned long)sum,
		  (unsigned long)shared.count);
	FGS_CHECK(fgi_trylock(&shared.lock), "the lock is left locked");
	fgi_unlock(&shared.lock);
}

const struct fgs_driver fgs_drivers[] = {{"lock", begin, thread, end}, {NULL, NULL, NULL, NULL}};
