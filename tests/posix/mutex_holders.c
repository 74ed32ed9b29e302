/* SPDX-License-Identifier: MIT */
/* Unusual holders: of very many mutexes, of one many times, one that has exited, one whose mutex another unlocks. */
#include "tests/posix/posix.h"

static void *lock_it(void *m)
{
	return (void *)(long)pthread_mutex_lock(m);
}

static void foreign_unlock(int kind)
{
	pthread_mutex_t m;

	init_kind(&m, kind);
	for (int i = 0; i < 100; i++) {
		ok(pthread_mutex_lock(&m));
		ok(elsewhere(unlock_it, &m));
		ok(elsewhere(lock_it, &m)); /* its holder has exited */
		CHECK_IS(pthread_mutex_trylock(&m), EBUSY);
		ok(pthread_mutex_unlock(&m));
		ok(elsewhere(try_it, &m));
	}
	ok(elsewhere(lock_it, &m));
	CHECK_IS(pthread_mutex_destroy(&m), EBUSY);
}

static pthread_mutex_t counted[4] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
				     PTHREAD_MUTEX_INITIALIZER};

/* Locks, then counts, two nested mutexes. */
static void counts(int n)
{
	ok(pthread_mutex_lock(&counted[2]));
	ok(pthread_mutex_lock(&counted[3]));
	CHECK_IS(sections(), n + 2);
	ok(pthread_mutex_unlock(&counted[2]));
	ok(pthread_mutex_unlock(&counted[3]));
	CHECK_IS(sections(), n);
}

static void *unlock_and_count(void *m)
{
	ok(pthread_mutex_unlock(m));
	counts(0);
	ok(pthread_mutex_lock(&counted[1]));
	return NULL;
}

static void *unlock_rwlock_and_count(void *rwlock)
{
	ok(pthread_rwlock_unlock(rwlock));
	counts(0);
	return NULL;
}

/* A mutex that another thread unlocks is neither's: not of the one that locked it, not less than none of the other's.
 * Of a lock whose word names the owner. */
static void counts_what_it_holds(void)
{
	const char *lock = getenv("FG_TEST_LOCK");
	pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

	if (!lock || strcmp(lock, "flexguard") != 0)
		return;
	counts(0);
	for (int i = 0; i < 200; i++) { /* more threads than there are notes, each of which ends as a holder */
		ok(pthread_mutex_lock(&counted[0]));
		elsewhere(unlock_and_count, &counted[0]);
		ok(pthread_mutex_unlock(&counted[1]));
		counts(0);
		ok(pthread_mutex_lock(&counted[0])); /* the same, counted in `held` */
		ok(pthread_mutex_lock(&counted[2]));
		ok(elsewhere(unlock_it, &counted[0]));
		ok(pthread_mutex_unlock(&counted[2]));
		ok(pthread_mutex_lock(&counted[1]));
		counts(1);
		ok(pthread_mutex_unlock(&counted[1]));
		ok(pthread_rwlock_wrlock(&rwlock));
		elsewhere(unlock_rwlock_and_count, &rwlock);
		counts(0);
	}
}

static pthread_rwlock_t written = PTHREAD_RWLOCK_INITIALIZER;

static void *unlock_beside_its_own(void *unused)
{
	ok(pthread_mutex_lock(&counted[1]));
	counts(1);
	ok(pthread_mutex_unlock(&counted[0]));
	counts(1);
	ok(pthread_rwlock_unlock(&written));
	counts(1);
	ok(pthread_mutex_unlock(&counted[1]));
	return unused;
}

static void counts_no_others_as_carried(void)
{
	ok(pthread_mutex_lock(&counted[0]));
	ok(pthread_rwlock_wrlock(&written));
	elsewhere(unlock_beside_its_own, NULL);
	counts(0);
}

static void unlock_carried(void)
{
	counts(2);
	ok(pthread_mutex_unlock(&counted[0]));
	ok(pthread_rwlock_unlock(&written));
	counts(0);
	counts_no_others_as_carried();
}

static void counts_in_a_child(void)
{
	const char *lock = getenv("FG_TEST_LOCK");

	if (!lock || strcmp(lock, "flexguard") != 0)
		return;
	in_child(counts_no_others_as_carried);
	ok(pthread_mutex_lock(&counted[0]));
	ok(pthread_rwlock_wrlock(&written));
	in_child(unlock_carried);
	ok(pthread_rwlock_unlock(&written));
	ok(pthread_mutex_unlock(&counted[0]));
	counts(0);
}

/* More than there are notes of, all open at once, of one thread and of several. */
#define MANY 500
static pthread_mutex_t many[MANY];
static int taken, released;

static void *unlock_many(void *arg)
{
	for (int i = 0; i < MANY; i++)
		ok(pthread_mutex_unlock(&many[i]));
	return arg;
}

static void *take_share(void *first)
{
	for (int i = 0; i < MANY / 5; i++)
		ok(pthread_mutex_lock((pthread_mutex_t *)first + i));
	__atomic_add_fetch(&taken, 1, __ATOMIC_RELEASE);
	await(&released, 1);
	ok(pthread_mutex_lock(&counted[0])); /* one after the other: `counted` is shared */
	counts(1);
	ok(pthread_mutex_unlock(&counted[0]));
	return NULL;
}

static void releases_by_others(void)
{
	const char *lock = getenv("FG_TEST_LOCK");
	pthread_t threads[5];

	if (!lock || strcmp(lock, "flexguard") != 0)
		return;
	for (int i = 0; i < MANY; i++)
		ok(pthread_mutex_lock(&many[i]));
	elsewhere(unlock_many, NULL);
	counts(0);
	for (int i = 0; i < 5; i++)
		threads[i] = check_thread(take_share, &many[i * (MANY / 5)]);
	await(&taken, 5);
	unlock_many(NULL);
	counts(0);
	tell(&released, 1);
	for (int i = 0; i < 5; i++)
		check_join(threads[i]);
}

/* Two threads hand a turn to each other by mutexes that one locks and the other unlocks. */
static void *answer(void *arg)
{
	for (int i = 0; i < MANY; i++) {
		ok(pthread_mutex_lock(&many[0]));
		ok(pthread_mutex_unlock(&many[1]));
	}
	return arg;
}

static void as_semaphores(void)
{
	const struct fg_thread_block *block = dlsym(RTLD_DEFAULT, "fg_thread");
	pthread_t other;

	ok(pthread_mutex_lock(&many[0]));
	ok(pthread_mutex_lock(&many[1]));
	other = check_thread(answer, NULL);
	for (int i = 0; i < MANY; i++) {
		ok(pthread_mutex_unlock(&many[0]));
		ok(pthread_mutex_lock(&many[1]));
	}
	check_join(other);
	if (block)
		CHECK(block->held <= 2, "%d sections", block->held);
	ok(pthread_mutex_unlock(&many[0])); /* the other's last */
	ok(pthread_mutex_unlock(&many[1]));
}

static void *nest(void *arg)
{
	static pthread_mutex_t m[1000];

	(void)arg;
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < 1000; i++)
			ok(pthread_mutex_lock(&m[i]));
		for (int i = 0; i < 1000; i++)
			CHECK_IS(pthread_mutex_trylock(&m[i]), EBUSY);
		for (int i = 0; i < 1000; i++) /* in, and against, the order of locking */
			ok(pthread_mutex_unlock(&m[round % 2 ? i : 999 - i]));
	}
	return NULL;
}

static void recursion(void)
{
	pthread_mutex_t m;

	init_kind(&m, PTHREAD_MUTEX_RECURSIVE);
	for (int i = 0; i < 300; i++)
		ok(pthread_mutex_lock(&m));
	for (int i = 0; i < 300; i++) {
		if (i % 50 == 0)
			CHECK_IS(elsewhere(try_it, &m), EBUSY);
		ok(pthread_mutex_unlock(&m));
	}
	CHECK_IS(pthread_mutex_unlock(&m), EPERM);
	ok(elsewhere(try_it, &m));
}

int main(void)
{
	foreign_unlock(PTHREAD_MUTEX_NORMAL);
	foreign_unlock(PTHREAD_MUTEX_ADAPTIVE_NP);
	counts_what_it_holds();
	counts_in_a_child();
	releases_by_others();
	as_semaphores();
	ok(elsewhere(nest, NULL));
	ok(elsewhere(nest, NULL));
	recursion();
	return 0;
}
