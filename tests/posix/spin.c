/* SPDX-License-Identifier: MIT */
/* Spinlocks: exclusion with more threads than CPUs, sharing with a process that has no interposer. */
#include "tests/posix/posix.h"

static pthread_spinlock_t *s;
static long *counter;

/* So many threads begin at the same time. */
static int begin, ready;

static void *count(void *n)
{
	__atomic_add_fetch(&ready, 1, __ATOMIC_RELAXED);
	while (__atomic_load_n(&ready, __ATOMIC_RELAXED) < begin)
		sched_yield();
	for (long i = 0; i < (long)n; i++) {
		if (i % 3 == 0)
			while (pthread_spin_trylock(s))
				sched_yield();
		else
			ok(pthread_spin_lock(s));
		*counter = *counter + 1;
		ok(pthread_spin_unlock(s));
	}
	return NULL;
}

static void *try_spin(void *lock)
{
	return (void *)(long)pthread_spin_trylock(lock);
}

static void threads(int n)
{
	pthread_t others[16];
	long each = n > 2 ? rounds(20000) : 20000;

	*counter = 0;
	ready = 0;
	begin = n;
	for (int i = 0; i < n; i++)
		others[i] = check_thread(count, (void *)each);
	for (int i = 0; i < n; i++)
		check_join(others[i]);
	CHECK_IS(*counter, n * each);
}

/* A holder that sleeps: the others wait, and get the lock afterwards. */
static void held_for_long(void)
{
	pthread_t others[4];

	*counter = 0;
	begin = 0;
	ok(pthread_spin_lock(s));
	for (int i = 0; i < 4; i++)
		others[i] = check_thread(count, (void *)10);
	usleep(20000);
	CHECK_IS(*counter, 0);
	CHECK_IS(elsewhere(try_spin, (void *)s), EBUSY);
	CHECK_IS(pthread_spin_trylock(s), EBUSY);
	ok(pthread_spin_unlock(s));
	for (int i = 0; i < 4; i++)
		check_join(others[i]);
	CHECK_IS(*counter, 40);
}

static int waiter;

static void *lock_and_count_parks(void *unused)
{
	const struct fg_thread_block *block = (const struct fg_thread_block *)dlsym(RTLD_DEFAULT, "fg_thread");

	(void)unused;
	tell(&waiter, gettid());
	ok(pthread_spin_lock(s));
	ok(pthread_spin_unlock(s));
	return (void *)(long)block->parks;
}

/* A waiter that gets nowhere leaves its CPU to others: it sleeps, and counts that. */
static void goes_to_sleep(void)
{
	pthread_t other;

	ok(pthread_spin_lock(s));
	other = check_thread(lock_and_count_parks, NULL);
	await(&waiter, 1);
	while (!sleeps(waiter))
		usleep(100);
	ok(pthread_spin_unlock(s));
	CHECK(check_join(other) != NULL, "it has slept, and not counted it");
}

static void *unlock_spin(void *lock)
{
	ok(pthread_spin_unlock(lock));
	return (void *)sections();
}

/* A thread counts a lock from taking it to unlocking it: not one that it has not taken. */
static void counts_its_own(void)
{
	pthread_spinlock_t other;

	ok(pthread_spin_init(&other, PTHREAD_PROCESS_PRIVATE));
	ok(pthread_spin_lock(s));
	CHECK_IS(sections(), 1);
	ok(pthread_spin_unlock(&other)); /* which is free */
	CHECK_IS(sections(), 1);
	ok(pthread_spin_unlock(s));
	CHECK_IS(sections(), 0);
	ok(pthread_spin_lock(&other));
	CHECK_IS(elsewhere(unlock_spin, (void *)&other), 0);
	CHECK_IS(elsewhere(try_spin, (void *)&other), 0);
}

static void in_shared_page(int fd)
{
	char *page = shared_page(fd);

	s = (pthread_spinlock_t *)(void *)page;
	counter = (long *)(void *)(page + 64);
}

static void across_processes(char *self)
{
	int fd = new_shared_page();
	pid_t other;

	in_shared_page(fd);
	ok(pthread_spin_init(s, PTHREAD_PROCESS_SHARED));
	other = start_on_glibc(self, fd);
	count((void *)20000);
	reap(other);
	CHECK_IS(*counter, 40000);
	ok(pthread_spin_destroy(s));
}

int main(int argc, char **argv)
{
	static pthread_spinlock_t lock;
	static long number;

	if (argc > 1) {
		in_shared_page(atoi(argv[1]));
		count((void *)20000);
		return 0;
	}
	s = &lock;
	counter = &number;
	ok(pthread_spin_init(s, PTHREAD_PROCESS_PRIVATE));
	threads(2);
	threads(8);
	held_for_long();
	if (ours() && !getenv("FG_TEST_UNKNOWN")) { /* then they are glibc's */
		counts_its_own();
		goes_to_sleep();
	}
	ok(pthread_spin_destroy(s));
	across_processes(argv[0]);
	return 0;
}
