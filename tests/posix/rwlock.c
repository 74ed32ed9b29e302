/* SPDX-License-Identifier: MIT */
/* Read-write locks: who excludes whom, what each call returns, kinds, attributes, clocks, recursion, fork. */
#include <sys/mman.h>

#include "tests/posix/posix.h"

static pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;

static void *try_read(void *lock)
{
	int error = pthread_rwlock_tryrdlock(lock);

	if (!error)
		ok(pthread_rwlock_unlock(lock));
	return (void *)(long)error;
}

static void *try_write(void *lock)
{
	int error = pthread_rwlock_trywrlock(lock);

	if (!error)
		ok(pthread_rwlock_unlock(lock));
	return (void *)(long)error;
}

static void init_lock(pthread_rwlock_t *lock, int kind, int shared)
{
	pthread_rwlockattr_t attr;

	ok(pthread_rwlockattr_init(&attr));
	ok(pthread_rwlockattr_setkind_np(&attr, kind));
	ok(pthread_rwlockattr_setpshared(&attr, shared));
	ok(pthread_rwlock_init(lock, &attr));
	ok(pthread_rwlockattr_destroy(&attr));
}

static void readers_exclude(pthread_rwlock_t *lock)
{
	CHECK_IS(elsewhere(try_write, lock), 0);
	ok(pthread_rwlock_rdlock(lock));
	CHECK_IS(elsewhere(try_read, lock), 0);
	CHECK_IS(elsewhere(try_write, lock), EBUSY);
	CHECK_IS(pthread_rwlock_trywrlock(lock), EBUSY);
	ok(pthread_rwlock_rdlock(lock)); /* again, by the same thread */
	ok(pthread_rwlock_tryrdlock(lock));
	ok(pthread_rwlock_unlock(lock));
	ok(pthread_rwlock_unlock(lock));
	CHECK_IS(elsewhere(try_write, lock), EBUSY);
	ok(pthread_rwlock_unlock(lock));
}

static void writer_excludes(pthread_rwlock_t *lock)
{
	struct timespec soon = from_now(CLOCK_REALTIME, 1000000);

	ok(pthread_rwlock_wrlock(lock));
	CHECK_IS(elsewhere(try_read, lock), EBUSY);
	CHECK_IS(elsewhere(try_write, lock), EBUSY);
	CHECK_IS(pthread_rwlock_tryrdlock(lock), EBUSY);
	CHECK_IS(pthread_rwlock_trywrlock(lock), EBUSY);
	CHECK_IS(pthread_rwlock_rdlock(lock), EDEADLK);
	CHECK_IS(pthread_rwlock_wrlock(lock), EDEADLK);
	CHECK_IS(pthread_rwlock_timedrdlock(lock, &soon), EDEADLK);
	CHECK_IS(pthread_rwlock_timedwrlock(lock, &soon), EDEADLK);
	ok(pthread_rwlock_unlock(lock));
	CHECK_IS(elsewhere(try_write, lock), 0);
	ok(pthread_rwlock_trywrlock(lock));
	ok(pthread_rwlock_unlock(lock));
}

static void excludes(pthread_rwlock_t *lock)
{
	readers_exclude(lock);
	writer_excludes(lock);
}

static const int kinds[] = {PTHREAD_RWLOCK_PREFER_READER_NP, PTHREAD_RWLOCK_PREFER_WRITER_NP,
			    PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP};

static void all_kinds(void)
{
	static pthread_rwlock_t writers = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
	pthread_rwlock_t lock;

	excludes(&l);
	excludes(&writers);
	for (int i = 0; i < 3; i++)
		for (int shared = 0; shared < 2; shared++) {
			init_lock(&lock, kinds[i], shared ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE);
			excludes(&lock);
			ok(pthread_rwlock_destroy(&lock));
		}
}

/* ---- deadlines ---- */

static int read_timed(const struct timespec *t)
{
	return pthread_rwlock_timedrdlock(&l, t);
}
static int write_timed(const struct timespec *t)
{
	return pthread_rwlock_timedwrlock(&l, t);
}
static int read_monotonic(const struct timespec *t)
{
	return pthread_rwlock_clockrdlock(&l, CLOCK_MONOTONIC, t);
}
static int write_monotonic(const struct timespec *t)
{
	return pthread_rwlock_clockwrlock(&l, CLOCK_MONOTONIC, t);
}
static int read_realtime(const struct timespec *t)
{
	return pthread_rwlock_clockrdlock(&l, CLOCK_REALTIME, t);
}

static const struct {
	int (*lock)(const struct timespec *t);
	clockid_t clock;
	bool writer;
} timed[] = {
	{read_timed, CLOCK_REALTIME, false},      {write_timed, CLOCK_REALTIME, true},
	{read_monotonic, CLOCK_MONOTONIC, false}, {write_monotonic, CLOCK_MONOTONIC, true},
	{read_realtime, CLOCK_REALTIME, false},
};

static void *expires(void *index)
{
	int (*lock)(const struct timespec *) = timed[(long)index].lock;
	clockid_t clock = timed[(long)index].clock;
	struct timespec t = from_now(clock, 15000000), before = {0, 0}, negative = {-1, 0};

	CHECK_IS(lock(&t), ETIMEDOUT);
	CHECK(reached(clock, &t), "it returned before the time");
	CHECK_IS(lock(&before), ETIMEDOUT);
	CHECK_IS(lock(&negative), ETIMEDOUT);
	t.tv_nsec = 1000000000;
	CHECK_IS(lock(&t), EINVAL);
	t.tv_nsec = -1;
	CHECK_IS(lock(&t), EINVAL);
	return NULL;
}

static void deadlines(void)
{
	struct timespec later, invalid = {0, -1}, past = {0, 0};

	for (long i = 0; i < (long)(sizeof(timed) / sizeof(timed[0])); i++) {
		later = from_now(timed[i].clock, LONG_WAIT);
		ok(timed[i].lock(&later)); /* a free lock is taken */
		ok(pthread_rwlock_unlock(&l));
		ok(timed[i].lock(&past)); /* even if the time has passed */
		ok(pthread_rwlock_unlock(&l));
		CHECK_IS(timed[i].lock(&invalid), EINVAL);
		ok(pthread_rwlock_wrlock(&l));
		elsewhere(expires, (void *)i);
		ok(pthread_rwlock_unlock(&l));
		if (timed[i].writer) {
			ok(pthread_rwlock_rdlock(&l));
			elsewhere(expires, (void *)i);
			CHECK_IS(elsewhere(try_read, &l), 0); /* nobody is kept out for a writer that has left */
			ok(pthread_rwlock_unlock(&l));
		}
		CHECK_IS(elsewhere(try_write, &l), 0);
	}
	later = from_now(CLOCK_MONOTONIC, LONG_WAIT);
	CHECK_IS(pthread_rwlock_clockrdlock(&l, CLOCK_PROCESS_CPUTIME_ID, &later), EINVAL);
	CHECK_IS(pthread_rwlock_clockwrlock(&l, CLOCK_PROCESS_CPUTIME_ID, &later), EINVAL);
}

/* ---- waiters ---- */

static int step, order;

static void *wait_to_write(void *lock)
{
	tell(&step, 1);
	ok(pthread_rwlock_wrlock(lock));
	tell(&order, order * 10 + 2);
	ok(pthread_rwlock_unlock(lock));
	return NULL;
}

static void *wait_to_read(void *lock)
{
	tell(&step, 1);
	ok(pthread_rwlock_rdlock(lock));
	__atomic_add_fetch(&order, 1, __ATOMIC_RELEASE);
	ok(pthread_rwlock_unlock(lock));
	return NULL;
}

/* Until a thread that comes and tries is kept out by the writer that waits: the kind that prefers writers. */
static void await_waiting_writer(pthread_rwlock_t *lock)
{
	const struct timespec moment = {0, 20000};

	while (elsewhere(try_read, lock) == 0)
		nanosleep(&moment, NULL);
}

/* A thread that reads may read again, whatever waits: programs rely on it, except those with the third kind. */
static void recursion(int kind)
{
	pthread_rwlock_t lock;
	pthread_t writer;

	init_lock(&lock, kind, PTHREAD_PROCESS_PRIVATE);

	for (int i = 0; i < 20; i++) {
		step = order = 0;
		ok(pthread_rwlock_rdlock(&lock));
		writer = check_thread(wait_to_write, &lock);
		await(&step, 1);
		if (i % 5 == 0)
			usleep(60000); /* long enough for the writer to park, and to reserve the lock */
		ok(pthread_rwlock_rdlock(&lock));
		CHECK_IS(elsewhere(try_read, &lock), 0); /* and others may try to */
		CHECK_IS(order, 0);
		ok(pthread_rwlock_unlock(&lock));
		ok(pthread_rwlock_unlock(&lock));
		check_join(writer);
		CHECK_IS(order, 2);
	}
	ok(pthread_rwlock_destroy(&lock));
}

/* Nor may a new reader wait for ever for a writer that waits for a thread that waits for that reader. */
static void reader_needs_reader(void)
{
	pthread_t writer, reader;

	step = order = 0;
	ok(pthread_rwlock_rdlock(&l));
	writer = check_thread(wait_to_write, &l);
	await(&step, 1);
	usleep(60000);
	reader = check_thread(wait_to_read, &l);
	check_join(reader);
	CHECK_IS(order, 1);
	ok(pthread_rwlock_unlock(&l));
	check_join(writer);
}

static int64_t read_after_ns;

static void *time_a_read(void *lock)
{
	struct timespec began, ended;

	clock_gettime(CLOCK_MONOTONIC, &began);
	wait_to_read(lock);
	clock_gettime(CLOCK_MONOTONIC, &ended);
	read_after_ns = (ended.tv_sec - began.tv_sec) * 1000000000 + ended.tv_nsec - began.tv_nsec;
	return NULL;
}

/* The kind that prefers writers keeps out readers that come after a writer that waits. Ours lets one in that has waited
 * for 20 ms, if the writer that the lock went to has got no CPU yet. */
static void writers_first(void)
{
	pthread_rwlock_t lock;
	pthread_t writer, reader;
	bool in_turn;

	init_lock(&lock, kinds[2], PTHREAD_PROCESS_PRIVATE);
	step = order = 0;
	ok(pthread_rwlock_rdlock(&lock));
	writer = check_thread(wait_to_write, &lock);
	await_waiting_writer(&lock);
	tell(&step, 0);
	reader = check_thread(time_a_read, &lock);
	await(&step, 1);
	usleep(5000);
	CHECK_IS(order, 0);
	ok(pthread_rwlock_unlock(&lock));
	check_join(writer);
	check_join(reader);
	in_turn = order == 3; /* the writer, then the reader */
	CHECK(in_turn || (ours() && order == 12 && read_after_ns >= 20000000), "%d", order);
	ok(pthread_rwlock_destroy(&lock));
}

/* All readers that wait come in when the writer leaves; the last of them lets the next writer in. */
static void after_a_writer(void)
{
	pthread_t readers[8], writer;

	order = 0;
	ok(pthread_rwlock_wrlock(&l));
	for (int i = 0; i < 8; i++)
		readers[i] = check_thread(wait_to_read, &l);
	writer = check_thread(wait_to_write, &l);
	usleep(5000);
	CHECK_IS(order, 0);
	ok(pthread_rwlock_unlock(&l));
	for (int i = 0; i < 8; i++)
		check_join(readers[i]);
	check_join(writer);
}

/* ---- another thread unlocks; the child of a fork unlocks; the memory goes at once ---- */

static void *unlock_lock(void *lock)
{
	return (void *)(long)pthread_rwlock_unlock(lock);
}

static void unlocked_elsewhere(void)
{
	ok(pthread_rwlock_rdlock(&l));
	CHECK_IS(elsewhere(unlock_lock, &l), 0);
	CHECK_IS(elsewhere(try_write, &l), 0);
	if (ours()) { /* glibc takes the unlock of a thread that does not write for a reader's */
		ok(pthread_rwlock_wrlock(&l));
		CHECK_IS(elsewhere(unlock_lock, &l), 0);
		CHECK_IS(elsewhere(try_write, &l), 0);
	}
}

static void use_it(void)
{
	ok(pthread_rwlock_unlock(&l));
	excludes(&l);
}

static void forks(void)
{
	pthread_t writer;

	ok(pthread_rwlock_rdlock(&l));
	in_child(use_it);
	ok(pthread_rwlock_unlock(&l));
	if (!ours())
		return; /* glibc knows a writer by its tid, and counts the waiters of the parent */
	ok(pthread_rwlock_wrlock(&l));
	in_child(use_it);
	step = order = 0;
	writer = check_thread(wait_to_write, &l);
	await(&step, 1);
	usleep(60000);
	in_child(use_it); /* the writer that waits is not in the child */
	ok(pthread_rwlock_unlock(&l));
	check_join(writer);
}

static void *last_reader(void *lock)
{
	pthread_rwlock_t *r = lock;

	ok(pthread_rwlock_wrlock(r)); /* so all readers have left */
	ok(pthread_rwlock_unlock(r));
	ok(pthread_rwlock_destroy(r));
	ok(munmap(lock, 4096));
	return NULL;
}

static void freed_at_once(void)
{
	for (int i = 0; i < 300; i++) {
		pthread_rwlock_t *r = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		pthread_t other;

		CHECK(r != MAP_FAILED);
		ok(pthread_rwlock_init(r, NULL));
		ok(i % 2 ? pthread_rwlock_rdlock(r) : pthread_rwlock_wrlock(r));
		other = check_thread(last_reader, r);
		ok(pthread_rwlock_unlock(r));
		check_join(other);
	}
}

/* ---- two processes, one without an interposer ---- */

struct shared {
	pthread_rwlock_t lock;
	_Alignas(64) long counter;
	int comes, is_in; /* the other process */
};

static void use_shared(struct shared *page)
{
	for (int i = 0; i < 2000; i++) {
		if (i % 3 == 0) {
			ok(pthread_rwlock_wrlock(&page->lock));
			page->counter++;
			if (i % 64 == 0) /* so that the other sleeps */
				usleep(50);
		} else {
			ok(pthread_rwlock_rdlock(&page->lock));
		}
		ok(pthread_rwlock_unlock(&page->lock));
	}
}

static void other_process(struct shared *page)
{
	tell(&page->comes, 1);
	ok(pthread_rwlock_wrlock(&page->lock));
	tell(&page->is_in, 1);
	ok(pthread_rwlock_unlock(&page->lock));
	use_shared(page);
}

static void across_processes(char *self)
{
	int fd = new_shared_page();
	struct shared *page = shared_page(fd);
	pid_t other;

	init_lock(&page->lock, PTHREAD_RWLOCK_PREFER_READER_NP, PTHREAD_PROCESS_SHARED);
	ok(pthread_rwlock_wrlock(&page->lock));
	other = start_on_glibc(self, fd);
	await(&page->comes, 1);
	usleep(20000); /* it sleeps */
	CHECK(!__atomic_load_n(&page->is_in, __ATOMIC_ACQUIRE));
	ok(pthread_rwlock_unlock(&page->lock));
	await(&page->is_in, 1);
	use_shared(page);
	reap(other);
	CHECK_IS(page->counter, 2 * ((2000 + 2) / 3));
	ok(pthread_rwlock_destroy(&page->lock));
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		other_process(shared_page(atoi(argv[1])));
		return 0;
	}
	all_kinds();
	deadlines();
	recursion(kinds[0]);
	recursion(kinds[1]);
	reader_needs_reader();
	writers_first();
	after_a_writer();
	unlocked_elsewhere();
	forks();
	across_processes(argv[0]);
	freed_at_once();
	return 0;
}
