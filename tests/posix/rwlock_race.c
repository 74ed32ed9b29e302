/* SPDX-License-Identifier: MIT */
/* Readers and writers by every call at once: no reader beside a writer, no two writers, no thread left asleep. */
#include "tests/posix/posix.h"

#define THREADS 6

static pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
static int readers, writers;
static long written, writes;

static const int fails_with[8] = {0, 0, EBUSY, ETIMEDOUT, ETIMEDOUT, 0, EBUSY, ETIMEDOUT};

static int enter(uint32_t how, bool *writes_now)
{
	struct timespec t = from_now(CLOCK_REALTIME, how >> 8 & 0x3ffff),
			m = from_now(CLOCK_MONOTONIC, how >> 8 & 0xffff);

	*writes_now = how % 8 >= 5;
	switch (how % 8) {
	case 0:
	case 1:
		return pthread_rwlock_rdlock(&l);
	case 2:
		return pthread_rwlock_tryrdlock(&l);
	case 3:
		return pthread_rwlock_timedrdlock(&l, &t);
	case 4:
		return pthread_rwlock_clockrdlock(&l, CLOCK_MONOTONIC, &m);
	case 5:
		return pthread_rwlock_wrlock(&l);
	case 6:
		return pthread_rwlock_trywrlock(&l);
	default:
		return pthread_rwlock_timedwrlock(&l, &t);
	}
}

static void *use(void *seed)
{
	uint32_t random = (uint32_t)(long)seed * 2654435761u | 1;
	long mine = 0;
	bool writing;

	for (int i = 0; goes_on(i, 20000); i++) {
		uint32_t how = random_from(&random);
		int error = enter(how >> 4, &writing);

		if (error) {
			CHECK_IS(error, fails_with[(how >> 4) % 8]);
			continue;
		}
		if (writing) {
			CHECK_IS(__atomic_add_fetch(&writers, 1, __ATOMIC_RELAXED), 1);
			CHECK_IS(__atomic_load_n(&readers, __ATOMIC_RELAXED), 0);
			written++;
			mine++;
			if (how % 1024 == 7)
				sched_yield();
			__atomic_sub_fetch(&writers, 1, __ATOMIC_RELAXED);
		} else {
			__atomic_add_fetch(&readers, 1, __ATOMIC_RELAXED);
			CHECK_IS(__atomic_load_n(&writers, __ATOMIC_RELAXED), 0);
			if (how % 1024 == 0)
				sched_yield();
			__atomic_sub_fetch(&readers, 1, __ATOMIC_RELAXED);
		}
		ok(pthread_rwlock_unlock(&l));
	}
	__atomic_add_fetch(&writes, mine, __ATOMIC_RELAXED);
	return NULL;
}

/* Nearly only reads, so that readers leave the word for the table and a writer calls them back. */
static void *read_mostly(void *seed)
{
	uint32_t random = (uint32_t)(long)seed * 2654435761u | 1;
	long seen, mine = 0;

	for (int i = 0; i % 64 || goes_on(i, 400000); i++)
		if (random_from(&random) % 256) {
			ok(pthread_rwlock_rdlock(&l));
			seen = __atomic_load_n(&written, __ATOMIC_RELAXED);
			CHECK_IS(__atomic_load_n(&writers, __ATOMIC_RELAXED), 0);
			CHECK_IS(__atomic_load_n(&written, __ATOMIC_RELAXED), seen);
			ok(pthread_rwlock_unlock(&l));
		} else {
			ok(pthread_rwlock_wrlock(&l));
			__atomic_store_n(&writers, 1, __ATOMIC_RELAXED);
			__atomic_store_n(&written, written + 1, __ATOMIC_RELAXED);
			mine++;
			__atomic_store_n(&writers, 0, __ATOMIC_RELAXED);
			ok(pthread_rwlock_unlock(&l));
		}
	__atomic_add_fetch(&writes, mine, __ATOMIC_RELAXED);
	return NULL;
}

/* Writers that give up at the moment they are woken: the next must be woken instead. */
static void *give_up(void *seed)
{
	uint32_t random = (uint32_t)(long)seed * 2654435761u | 1;
	long mine = 0;

	for (int i = 0; goes_on(i, 4000); i++) {
		struct timespec t = from_now(CLOCK_REALTIME, random_from(&random) >> 17);
		bool timed = random_from(&random) % 4;
		int error = timed ? pthread_rwlock_timedwrlock(&l, &t) : pthread_rwlock_wrlock(&l);

		if (error) {
			CHECK_IS(error, ETIMEDOUT);
			continue;
		}
		written++;
		mine++;
		for (int k = (int)(random_from(&random) % 4); k; k--)
			sched_yield();
		ok(pthread_rwlock_unlock(&l));
	}
	__atomic_add_fetch(&writes, mine, __ATOMIC_RELAXED);
	return NULL;
}

static void all(void *(*run)(void *), int threads)
{
	pthread_t others[THREADS];

	for (int i = 0; i < threads; i++)
		others[i] = check_thread(run, (void *)(long)(i + 1));
	for (int i = 0; i < threads; i++)
		check_join(others[i]);
	CHECK_IS(written, writes);
	ok(pthread_rwlock_trywrlock(&l));
	ok(pthread_rwlock_unlock(&l));
}

int main(void)
{
	pthread_rwlock_t preferring = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

	all(use, THREADS);
	all(read_mostly, 2);
	all(read_mostly, THREADS);
	all(give_up, THREADS);
	l = preferring;
	all(use, THREADS);
	all(give_up, THREADS);
	all(read_mostly, THREADS);
	return 0;
}
