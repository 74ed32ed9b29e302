/* SPDX-License-Identifier: MIT */
/* A new read-write lock at the address of one whose readers have ended, or stayed in the parent of a fork: it is free.
 * Readers of a busy lock stand in a table beside it (sync/readers.h), where a new lock at that address must not find
 * them. */
#include "tests/posix/posix.h"

#define READ 0x10000000u /* sync/rwlock.h */
#define COUNT 0x03ffffffu
#define BIASED 0x04000000u
#define IN_TIME 20000000000l /* less than the watchdog */

static pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
static int stop, reads, done;

static bool has(uint32_t flag)
{
	return __atomic_load_n((const uint32_t *)(const void *)&l, __ATOMIC_RELAXED) & flag;
}

static void *read_often(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		ok(pthread_rwlock_rdlock(&l));
		ok(pthread_rwlock_unlock(&l));
	}
	return arg;
}

/* From now on readers stand in the table, until a writer comes. */
static void fill_table(void)
{
	const struct timespec moment = {0, 20000};
	pthread_t readers[3];

	stop = 0;
	for (int i = 0; i < 3; i++)
		readers[i] = check_thread(read_often, NULL);
	while (ours() && !has(BIASED))
		nanosleep(&moment, NULL);
	tell(&stop, 1);
	for (int i = 0; i < 3; i++)
		check_join(readers[i]);
}

static void read_in_table(void)
{
	ok(pthread_rwlock_rdlock(&l));
	CHECK(!ours() || !(has(READ) && has(COUNT)), "the reader is counted in the lock");
}

static void *ends_as_reader(void *arg)
{
	read_in_table();
	return arg;
}

static void *reads_on(void *arg)
{
	read_in_table();
	tell(&reads, 1);
	await(&done, 1);
	ok(pthread_rwlock_unlock(&l));
	return arg;
}

/* Ends the bias, too. */
static void is_free(void)
{
	struct timespec t = from_now(CLOCK_REALTIME, IN_TIME);

	ok(pthread_rwlock_timedwrlock(&l, &t));
	ok(pthread_rwlock_unlock(&l));
}

static void works(void)
{
	is_free();
	fill_table();
	is_free();
}

static void initialised(void)
{
	ok(pthread_rwlock_init(&l, NULL));
	works();
}

static void assigned(void)
{
	const pthread_rwlock_t fresh = PTHREAD_RWLOCK_INITIALIZER;

	l = fresh;
	works();
}

static void reader_has_ended(void)
{
	fill_table();
	check_join(check_thread(ends_as_reader, NULL));
	initialised();
}

static void *read_for_a_while(void *arg)
{
	for (int i = 0; i < 1000000 && !has(BIASED); i++) {
		ok(pthread_rwlock_rdlock(&l));
		ok(pthread_rwlock_unlock(&l));
	}
	return arg;
}

/* As above, but nothing tells that the lock is a new one. */
static void assigned_after_the_end(void)
{
	const pthread_rwlock_t fresh = PTHREAD_RWLOCK_INITIALIZER;
	pthread_t readers[3];

	fill_table();
	check_join(check_thread(ends_as_reader, NULL));
	l = fresh;
	is_free();
	for (int i = 0; i < 3; i++)
		readers[i] = check_thread(read_for_a_while, NULL);
	for (int i = 0; i < 3; i++)
		check_join(readers[i]);
	is_free();
	initialised();
}

static void reader_stays_in_parent(void)
{
	pthread_t reader;

	reads = done = 0;
	fill_table();
	reader = check_thread(reads_on, NULL);
	await(&reads, 1);
	in_child(initialised);
	in_child(assigned);
	CHECK_IS(pthread_rwlock_trywrlock(&l), EBUSY);
	tell(&done, 1);
	check_join(reader);
	works();
}

/* The read lock of the thread that forks is the child's, and its child's. */
static void give_it_up(void)
{
	CHECK_IS(pthread_rwlock_trywrlock(&l), EBUSY);
	ok(pthread_rwlock_unlock(&l));
	works();
}

static void pass_it_on(void)
{
	in_child(give_it_up);
	give_it_up();
}

static void forker_reads(void)
{
	fill_table();
	read_in_table();
	in_child(pass_it_on);
	give_it_up();
}

int main(void)
{
	reader_has_ended();
	for (int i = 0; i < 5; i++)
		assigned_after_the_end();
	reader_stays_in_parent();
	forker_reads();
	return 0;
}
