/* SPDX-License-Identifier: MIT */
/* Every kind of mutex against every operation: results, error numbers, mutual exclusion. */
#include <limits.h>

#include "tests/posix/posix.h"

static const int kinds[] = {PTHREAD_MUTEX_DEFAULT, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ADAPTIVE_NP,
			    PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_RECURSIVE};
static const struct timespec past = {.tv_sec = 1};

static bool has_owner(int kind)
{
	return kind == PTHREAD_MUTEX_ERRORCHECK || kind == PTHREAD_MUTEX_RECURSIVE;
}

static void *lock_late(void *m)
{
	return (void *)(long)pthread_mutex_timedlock(m, &past);
}

static void *clocklock_late(void *m)
{
	return (void *)(long)pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &past);
}

/* What a second lock by the holder returns; a normal mutex is only asked where it cannot block for ever. */
static void lock_again(pthread_mutex_t *m, int kind)
{
	if (kind == PTHREAD_MUTEX_RECURSIVE) {
		ok(pthread_mutex_lock(m));
		ok(pthread_mutex_trylock(m));
		ok(pthread_mutex_timedlock(m, &past));
		ok(pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &past));
		for (int i = 0; i < 4; i++)
			ok(pthread_mutex_unlock(m));
	} else if (kind == PTHREAD_MUTEX_ERRORCHECK) {
		CHECK_IS(pthread_mutex_lock(m), EDEADLK);
		CHECK_IS(pthread_mutex_trylock(m), EBUSY);
		CHECK_IS(pthread_mutex_timedlock(m, &past), EDEADLK);
		CHECK_IS(pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &past), EDEADLK);
	} else {
		CHECK_IS(pthread_mutex_trylock(m), EBUSY);
		CHECK_IS(pthread_mutex_timedlock(m, &past), ETIMEDOUT);
		CHECK_IS(pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &past), ETIMEDOUT);
	}
}

static void held(pthread_mutex_t *m, int kind)
{
	CHECK_IS(m->__data.__lock == 0, ours()); /* glibc's lock word: whose lock is it that we test? */
	lock_again(m, kind);
	CHECK_IS(elsewhere(try_it, m), EBUSY);
	CHECK_IS(elsewhere(lock_late, m), ETIMEDOUT);
	CHECK_IS(elsewhere(clocklock_late, m), ETIMEDOUT);
	CHECK_IS(pthread_mutex_destroy(m), EBUSY);
	if (has_owner(kind))
		CHECK_IS(elsewhere(unlock_it, m), EPERM);
	CHECK_IS(elsewhere(try_it, m), EBUSY);
	ok(pthread_mutex_unlock(m));
	ok(elsewhere(try_it, m));
	if (has_owner(kind))
		CHECK_IS(pthread_mutex_unlock(m), EPERM);
}

/* The other properties of a mutex are errors for one that has not got them. */
static void not_that_kind(pthread_mutex_t *m)
{
	int ceiling;

	CHECK_IS(pthread_mutex_consistent(m), EINVAL);
	CHECK_IS(pthread_mutex_getprioceiling(m, &ceiling), EINVAL);
	CHECK_IS(pthread_mutex_setprioceiling(m, 1, &ceiling), EINVAL);
}

static void destroyed(pthread_mutex_t *m)
{
	CHECK_IS(pthread_mutex_lock(m), EINVAL);
	CHECK_IS(pthread_mutex_trylock(m), EINVAL);
	CHECK_IS(pthread_mutex_timedlock(m, &past), EINVAL);
	CHECK_IS(pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &past), EINVAL);
	CHECK_IS(pthread_mutex_unlock(m), EINVAL);
}

static void operations(int kind)
{
	pthread_mutex_t m;

	memset(&m, 0xa5, sizeof(m));
	for (int round = 0; round < 2; round++) { /* a destroyed mutex may be initialised anew */
		init_kind(&m, kind);
		not_that_kind(&m);
		ok(pthread_mutex_lock(&m));
		held(&m, kind);
		ok(pthread_mutex_trylock(&m));
		held(&m, kind);
		ok(pthread_mutex_timedlock(&m, &past));
		held(&m, kind);
		ok(pthread_mutex_clocklock(&m, CLOCK_REALTIME, &past));
		held(&m, kind);
		ok(pthread_mutex_destroy(&m));
		destroyed(&m);
	}
}

/* The count is at the same place in both implementations, so the test need not lock 2^32 times. */
static void overflow(void)
{
	pthread_mutex_t m;

	init_kind(&m, PTHREAD_MUTEX_RECURSIVE);
	ok(pthread_mutex_lock(&m));
	CHECK_IS(m.__data.__count, 1);
	m.__data.__count = UINT_MAX;
	CHECK_IS(pthread_mutex_lock(&m), EAGAIN);
	CHECK_IS(pthread_mutex_trylock(&m), EAGAIN);
	CHECK_IS(pthread_mutex_timedlock(&m, &past), EAGAIN);
	CHECK_IS(m.__data.__count, UINT_MAX);
	m.__data.__count = 1;
	ok(pthread_mutex_unlock(&m));
	ok(elsewhere(try_it, &m));
}

struct shared {
	pthread_mutex_t m;
	long counter; /* plain: the mutex is all that protects it */
};

static void *increment(void *arg)
{
	struct shared *s = arg;
	const struct timespec deadline = from_now(CLOCK_MONOTONIC, LONG_WAIT);

	for (int i = 0; i < 30000; i++) {
		if (i % 3 == 0)
			ok(pthread_mutex_lock(&s->m));
		else if (i % 3 == 1)
			while (pthread_mutex_trylock(&s->m))
				;
		else
			ok(pthread_mutex_clocklock(&s->m, CLOCK_MONOTONIC, &deadline));
		s->counter++;
		ok(pthread_mutex_unlock(&s->m));
	}
	return NULL;
}

static void exclusion(int kind)
{
	struct shared s = {.counter = 0};
	int n = at_most(4);
	pthread_t threads[4];

	init_kind(&s.m, kind);
	for (int i = 0; i < n; i++)
		threads[i] = check_thread(increment, &s);
	for (int i = 0; i < n; i++)
		check_join(threads[i]);
	CHECK_IS(s.counter, n * 30000);
	ok(pthread_mutex_destroy(&s.m));
}

/* Without attributes, over whatever was there. */
static void no_attributes(void)
{
	pthread_mutex_t m;

	memset(&m, 0xa5, sizeof(m));
	ok(pthread_mutex_init(&m, NULL));
	ok(pthread_mutex_lock(&m));
	held(&m, PTHREAD_MUTEX_DEFAULT);
	ok(pthread_mutex_destroy(&m));
	destroyed(&m);
}

/* The version of the symbols that an architecture's first glibc had. */
#ifdef __aarch64__
#define OLDEST_GLIBC "GLIBC_2.17"
#else
#define OLDEST_GLIBC "GLIBC_2.2.5"
#endif

/* glibc exports its functions under second names, too: they must lock the same lock. */
static void second_names(void)
{
	static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
	int (*lock)(pthread_mutex_t *), (*unlock)(pthread_mutex_t *), (*trylock)(pthread_mutex_t *);

	/* only old programs know them, and only by this version */
	*(void **)&lock = dlvsym(RTLD_DEFAULT, "__pthread_mutex_lock", OLDEST_GLIBC);
	*(void **)&unlock = dlvsym(RTLD_DEFAULT, "__pthread_mutex_unlock", OLDEST_GLIBC);
	*(void **)&trylock = dlvsym(RTLD_DEFAULT, "__pthread_mutex_trylock", OLDEST_GLIBC);
	if (ours()) {
		*(void **)&lock = dlsym(RTLD_DEFAULT, "__pthread_mutex_lock");
		*(void **)&unlock = dlsym(RTLD_DEFAULT, "__pthread_mutex_unlock");
		*(void **)&trylock = dlsym(RTLD_DEFAULT, "__pthread_mutex_trylock");
	}
	CHECK(lock && unlock && trylock);
	ok(lock(&m));
	CHECK_IS(elsewhere(try_it, &m), EBUSY);
	CHECK_IS(trylock(&m), EBUSY);
	ok(pthread_mutex_unlock(&m));
	ok(pthread_mutex_lock(&m));
	ok(unlock(&m));
	ok(elsewhere(try_it, &m));
}

int main(void)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		operations(kinds[i]);
		exclusion(kinds[i]);
	}
	no_attributes();
	overflow();
	second_names();
	return 0;
}
