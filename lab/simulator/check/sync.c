/* SPDX-License-Identifier: MIT */
/* What lib/sync waits with, under all schedules. */
#include FGI_LOCK_FILE

#include <string.h>

#include "simulator/check/monitor.h"
#include "sync/barrier.h"
#include "sync/cond.h"
#include "sync/rwlock.h"

/* The interposer's semaphore under names of its own: the linker leads the others to the model of glibc's. */
#include <semaphore.h>

#define sem_wait checked_sem_wait
#define sem_timedwait checked_sem_timedwait
#define sem_clockwait checked_sem_clockwait
int checked_sem_wait(sem_t *sem);
int checked_sem_timedwait(sem_t *restrict sem, const struct timespec *restrict abs);
int checked_sem_clockwait(sem_t *restrict sem, clockid_t clock, const struct timespec *restrict abs);
#include "interpose/sem.c"
#undef sem_wait
#undef sem_timedwait
#undef sem_clockwait

struct fgi_real fgi_real_table = {.checked_sem_wait = sem_wait,
				  .checked_sem_timedwait = sem_timedwait,
				  .checked_sem_clockwait = sem_clockwait,
				  .sem_understood = 1};
int fgi_real_found = 1;
uint32_t fgi_cancels;

void fgi_real_find(void)
{
}

static struct timespec soon(uint64_t r)
{
	return fgi_timespec(fgi_now_ns(CLOCK_MONOTONIC) + r % 200000);
}

/* ---- the condition variable: a buffer for one item -------------------------------------------------------------- */

struct mutex {
	struct fg_lock lock;
	struct fgi_due due;
};

static struct {
	struct mutex mutex;
	struct fgi_cond filled, emptied;
	uint32_t items, made, taken;
	unsigned int threads;
	bool shared; /* both wait at one condition variable: each change is broadcast */
	bool moves;  /* signals with the mutex held, which keeps a record of the waiters that were moved to it */
} buffer;

static int lock(void *mutex)
{
	fgi_lock(&((struct mutex *)mutex)->lock);
	return 0;
}

static int unlock(void *mutex)
{
	struct mutex *m = mutex;
	struct fgi_due_told told;

	if (!m->due.any) {
		fgi_unlock(&m->lock);
		return 0;
	}
	told = fgi_due_take(&m->due, m);
	fgi_unlock(&m->lock);
	fgi_due_tell(told);
	return 0;
}

static struct fgi_due *due(void *mutex)
{
	return &((struct mutex *)mutex)->due;
}

static const struct fgi_cond_mutexes plain = {.unlock = unlock, .lock = lock},
				     recorded = {.unlock = unlock, .lock = lock, .due = due};

static void wait_at(struct fgi_cond *c, uint64_t r)
{
	struct timespec until = soon(r >> 8);
	const struct fgi_cond_mutexes *kind = buffer.moves ? &recorded : &plain;

	(void)fgi_cond_wait(c, &buffer.mutex, kind, FGI_DEADLINE(CLOCK_MONOTONIC, r % 16 ? NULL : &until));
}

/* As often as the others take, or make, in all. */
static void move_items(bool makes, unsigned int times)
{
	struct fgi_cond *own = makes || buffer.shared ? &buffer.emptied : &buffer.filled;
	struct fgi_cond *other = makes && !buffer.shared ? &buffer.filled : &buffer.emptied;

	for (unsigned int i = 0; i < times; i++) {
		uint64_t r = fgs_random() >> 16;

		lock(&buffer.mutex);
		while (buffer.items == makes)
			wait_at(own, fgs_random() >> 16);
		buffer.items = makes;
		if (makes)
			buffer.made++;
		else
			buffer.taken++;
		if (!buffer.moves)
			unlock(&buffer.mutex);
		if (r % 4 && !buffer.shared)
			fgi_cond_signal(other);
		else
			fgi_cond_broadcast(other);
		if (buffer.moves)
			unlock(&buffer.mutex);
		fgs_check_progress();
	}
}

static void begin_buffer(unsigned int threads)
{
	buffer.threads = threads;
	buffer.shared = fgs_random() >> 63;
	fgs_check_monitor();
}

static void begin_moves(unsigned int threads)
{
	buffer.moves = true;
	begin_buffer(threads);
}

static void use_buffer(unsigned int index)
{
	unsigned int makers = (buffer.threads + 1) / 2, takers = buffer.threads / 2;

	if (index % 2 == 0)
		move_items(true, 2 * takers);
	else
		move_items(false, 2 * makers);
}

static void end_buffer(unsigned int threads)
{
	uint32_t all = 2 * ((threads + 1) / 2) * (threads / 2);

	FGS_CHECK(buffer.made == all && buffer.taken == all && !buffer.items, "%u of %u made, %u taken", buffer.made,
		  all, buffer.taken);
	FGS_CHECK(!fgi_cond_busy(&buffer.filled) && !fgi_cond_busy(&buffer.emptied), "a waiter is left behind");
}

/* ---- the read-write lock ---------------------------------------------------------------------------------------- */

static struct {
	struct fgi_rwlock lock;
	uint32_t readers __attribute__((aligned(64)));
	uint32_t writers, writes;
	uint32_t written[8];
} records;

static void begin_records(unsigned int threads)
{
	(void)threads;
	records.lock.unbiased_until = (fgs_random() >> 63) * FGI_RW_WRITERS_FIRST;
	fgs_check_monitor();
}

static void read_records(uint64_t r)
{
	struct timespec until = soon(r >> 8);

	if (fgi_rwlock_read(&records.lock, FGI_DEADLINE(CLOCK_MONOTONIC, r % 8 ? NULL : &until)))
		return;
	fg_fetch_add_relaxed(&records.readers, 1);
	FGS_CHECK(!fg_load_relaxed(&records.writers), "a reader is in beside a writer");
	fg_fetch_add_relaxed(&records.readers, -1u);
	fgi_rwlock_unlock(&records.lock);
}

static void write_records(unsigned int index, uint64_t r)
{
	struct timespec until = soon(r >> 8);

	if (fgi_rwlock_write(&records.lock, FGI_DEADLINE(CLOCK_MONOTONIC, r % 8 ? NULL : &until)))
		return;
	FGS_CHECK(!fg_fetch_add_relaxed(&records.writers, 1), "two writers are in");
	FGS_CHECK(!fg_load_relaxed(&records.readers), "a writer is in beside a reader");
	records.writes++;
	records.written[index]++;
	fg_fetch_add_relaxed(&records.writers, -1u);
	fgi_rwlock_unlock(&records.lock);
}

static void use_records(unsigned int index)
{
	for (int i = 0; i < 4; i++) {
		uint64_t r = fgs_random() >> 16;

		if (r % 3)
			read_records(r >> 4);
		else
			write_records(index, r >> 4);
		fgs_check_progress();
	}
	FGS_CHECK(fg_thread.held == 0 && fgi_reading == 0, "thread %u is in %d sections at its end, and reads %d",
		  index, fg_thread.held, fgi_reading);
}

static void end_records(unsigned int threads)
{
	uint32_t sum = 0;

	for (unsigned int i = 0; i < threads; i++)
		sum += records.written[i];
	FGS_CHECK(sum == records.writes, "%u sections, and %u updates", sum, records.writes);
	FGS_CHECK(fgi_rwlock_try_write(&records.lock) == 0, "the lock is left locked");
}

/* ---- the barrier ------------------------------------------------------------------------------------------------ */

static struct {
	struct fgi_barrier barrier;
	uint32_t tickets, arrivals, arrived, last;
} phases;

/* For all threads, or for two: then phases overlap. */
static void begin_phases(unsigned int threads)
{
	phases.barrier.count = fgs_random() >> 63 ? threads : 2;
	phases.arrivals = 4 * phases.barrier.count;
	fgs_check_monitor();
}

static void use_phases(unsigned int index)
{
	(void)index;
	while (fg_fetch_add_relaxed(&phases.tickets, 1) < phases.arrivals) {
		fg_fetch_add_relaxed(&phases.arrived, 1);
		if (fgi_barrier_wait(&phases.barrier))
			fg_fetch_add_relaxed(&phases.last, 1);
		FGS_CHECK(fg_load_relaxed(&phases.arrived) >= phases.barrier.count, "a phase ends after %u arrivals",
			  phases.arrived);
		fgs_check_progress();
	}
}

static void end_phases(unsigned int threads)
{
	(void)threads;
	FGS_CHECK(phases.last == 4, "%u threads are the last of 4 phases", phases.last);
	FGS_CHECK(fgi_barrier_destroy(&phases.barrier) == 0, "a thread waits for the next phase");
}

/* ---- parking: tokens, which half of the threads give and the others take ----------------------------------------- */

static struct {
	uint32_t tokens, given, taken;
} pool;

static void begin_pool(unsigned int threads)
{
	(void)threads;
	fgs_check_monitor();
}

static void take_token(void)
{
	struct fgi_parked node = {.object = &pool};
	struct fgi_parked_list *list = fgi_parked_lock(&pool);

	if (pool.tokens) {
		pool.tokens--;
		fg_fetch_add_relaxed(&pool.taken, 1);
		fgi_parked_unlock(list);
		return;
	}
	fgi_parked_add(list, &node, false);
	fgi_parked_unlock(list);
	while (!fgi_parked_told(&node))
		(void)fgi_parked_sleep(&node, FGI_PARKED_ASLEEP, &FGI_NEVER, 0);
	fg_fetch_add_relaxed(&pool.taken, 1);
}

static void give_token(void)
{
	struct fgi_parked_list *list = fgi_parked_lock(&pool);
	struct fgi_parked *first = fgi_parked_next(list, &pool, NULL);

	pool.given++;
	if (first)
		fgi_parked_remove(list, first);
	else
		pool.tokens++;
	fgi_parked_unlock(list);
	if (first)
		fgi_parked_tell(first, FGI_PARKED_OWNER);
}

static void use_pool(unsigned int index)
{
	for (int i = 0; i < 4; i++) {
		if (index % 2) {
			take_token();
		} else {
			give_token();
			give_token();
		}
		fgs_check_progress();
	}
}

static void end_pool(unsigned int threads)
{
	FGS_CHECK(pool.taken == 4 * (threads / 2) && pool.given == pool.tokens + pool.taken,
		  "%u given, %u left, %u taken", pool.given, pool.tokens, pool.taken);
}

/* ---- the semaphore: the interposer's, in front of the model of glibc's ------------------------------------------- */

static struct {
	sem_t tokens;
	uint32_t posted, taken, timeouts;
	unsigned int threads;
} semaphore;

static void begin_semaphore(unsigned int threads)
{
	semaphore.threads = threads;
	sem_init(&semaphore.tokens, 0, 0);
	fgs_check_monitor();
}

/* Some waits have a deadline, and may end without a token. */
static void take_posted(uint64_t r)
{
	struct timespec until = soon(r >> 8);
	int result = r % 8 ? checked_sem_wait(&semaphore.tokens)
			   : checked_sem_clockwait(&semaphore.tokens, CLOCK_MONOTONIC, &until);

	if (result)
		fg_fetch_add_relaxed(&semaphore.timeouts, 1);
	else
		FGS_CHECK(fg_fetch_add_relaxed(&semaphore.taken, 1) < fg_load_relaxed(&semaphore.posted),
			  "a token that nobody posted");
}

/* As many tokens as there are waits. */
static void use_semaphore(unsigned int index)
{
	unsigned int posters = (semaphore.threads + 1) / 2, takers = semaphore.threads / 2;

	for (unsigned int i = 0; i < 2 * (index % 2 ? posters : takers); i++) {
		uint64_t r = fgs_random() >> 16;

		if (index % 2) {
			take_posted(r);
		} else {
			fg_fetch_add_relaxed(&semaphore.posted, 1);
			sem_post(&semaphore.tokens);
		}
		fgs_check_progress();
	}
}

static void end_semaphore(unsigned int threads)
{
	uint32_t left = 0;

	(void)threads;
	while (sem_trywait(&semaphore.tokens) == 0)
		left++;
	FGS_CHECK(semaphore.posted == semaphore.taken + left && left == semaphore.timeouts,
		  "%u posted, %u taken, %u waits timed out, %u left", semaphore.posted, semaphore.taken,
		  semaphore.timeouts, left);
}

const struct fgs_driver fgs_drivers[] = {{"cond", begin_buffer, use_buffer, end_buffer},
					 {"cond-moved", begin_moves, use_buffer, end_buffer},
					 {"rwlock", begin_records, use_records, end_records},
					 {"barrier", begin_phases, use_phases, end_phases},
					 {"parked", begin_pool, use_pool, end_pool},
					 {"semaphore", begin_semaphore, use_semaphore, end_semaphore},
					 {NULL, NULL, NULL, NULL}};
