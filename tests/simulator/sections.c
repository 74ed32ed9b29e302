/* SPDX-License-Identifier: MIT */
/* Sections that are given to a lock as functions, under all schedules: each is executed once and alone, a read sees no
 * half of an update, no wake-up is lost. */
#include FGI_LOCK_FILE

#include "simulator/check/monitor.h"

#define VISITS 4u

static struct {
	struct fg_lock lock;
	uint64_t inside __attribute__((aligned(64))); /* the executed visit, + 1 */
	uint64_t first, second;
	uint64_t updates[8];
} shared;

struct visit {
	uint64_t name, executed;
	uint64_t first, second;
};

static void begin(unsigned int threads)
{
	(void)threads;
	fgs_check_monitor();
}

static void update(void *argument)
{
	struct visit *visit = argument;

	FGS_CHECK(!shared.inside, "sections %lu and %lu are executed at once", (unsigned long)shared.inside - 1,
		  (unsigned long)visit->name);
	shared.inside = visit->name + 1;
	fg_store_release(&shared.first, fg_load_acquire(&shared.first) + 1);
	if (visit->name % 4 == 3)
		fgi_spin_times(8);
	fg_store_release(&shared.second, fg_load_acquire(&shared.second) + 1);
	visit->executed++;
	shared.inside = 0;
}

#ifdef FGB_LOCK_READS
static void look(void *argument)
{
	struct visit *visit = argument;

	visit->first = fg_load_acquire(&shared.first);
	visit->second = fg_load_acquire(&shared.second);
}
#endif

static void thread(unsigned int index)
{
	for (unsigned int i = 0; i < VISITS; i++) {
		uint64_t r = fgs_random() >> 16;
		struct visit visit = {.name = index * VISITS + i};

#ifdef FGB_LOCK_READS
		if (r % 2) {
			fgb_read(&shared.lock, look, &visit);
			FGS_CHECK(visit.first == visit.second, "thread %u sees half of an update", index);
			fgs_check_progress();
			continue;
		}
#endif
		if (r % 8 == 0) { /* a thread that takes the lock itself */
			fgi_lock(&shared.lock);
			update(&visit);
			fgi_unlock(&shared.lock);
		} else {
			fgb_execute(&shared.lock, update, &visit);
		}
		FGS_CHECK(visit.executed == 1, "thread %u has its section executed %lu times", index,
			  (unsigned long)visit.executed);
		shared.updates[index]++;
		fgs_check_progress();
	}
	FGS_CHECK(fg_thread.held == 0 && fg_thread.pending == 0, "thread %u says that it holds a lock at its end",
		  index);
}

static void end(unsigned int threads)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < threads; i++)
		sum += shared.updates[i];
	FGS_CHECK(sum == shared.first && sum == shared.second, "%lu updates asked for, %lu and %lu seen",
		  (unsigned long)sum, (unsigned long)shared.first, (unsigned long)shared.second);
	FGS_CHECK(fgi_trylock(&shared.lock), "the lock is left locked");
	fgi_unlock(&shared.lock);
}

const struct fgs_driver fgs_drivers[] = {{"sections", begin, thread, end}, {NULL, NULL, NULL, NULL}};
