/* SPDX-License-Identifier: MIT */
/* C11's mutexes, condition variables and call_once. */
#include <threads.h>

#include "tests/posix/posix.h"

static mtx_t m;
static cnd_t c;
static int ready, released;
static long counter;

static void *try_mtx(void *mutex)
{
	int result = mtx_trylock(mutex);

	if (result == thrd_success)
		CHECK_IS(mtx_unlock(mutex), thrd_success);
	return (void *)(long)result;
}

static void *wait_timed(void *mutex)
{
	struct timespec t = from_now(CLOCK_REALTIME, 10000000);

	CHECK_IS(mtx_timedlock(mutex, &t), thrd_timedout);
	CHECK(reached(CLOCK_REALTIME, &t), "it returned before the time");
	t.tv_nsec = -1;
	CHECK_IS(mtx_timedlock(mutex, &t), thrd_error);
	return NULL;
}

/* No type of the standard: glibc takes it for plain. */
static void no_type(void)
{
	CHECK_IS(mtx_init(&m, -1), thrd_success);
	CHECK_IS(mtx_lock(&m), thrd_success);
	CHECK_IS(mtx_trylock(&m), thrd_busy);
	CHECK_IS(mtx_unlock(&m), thrd_success);
	mtx_destroy(&m);
}

static void mutexes(void)
{
	static const int types[] = {mtx_plain, mtx_timed, mtx_plain | mtx_recursive, mtx_timed | mtx_recursive};
	struct timespec later = from_now(CLOCK_REALTIME, LONG_WAIT);

	for (int i = 0; i < 4; i++) {
		CHECK_IS(mtx_init(&m, types[i]), thrd_success);
		CHECK_IS(mtx_lock(&m), thrd_success);
		CHECK_IS(elsewhere(try_mtx, &m), thrd_busy);
		elsewhere(wait_timed, &m);
		if (types[i] & mtx_recursive) {
			CHECK_IS(mtx_lock(&m), thrd_success);
			CHECK_IS(mtx_trylock(&m), thrd_success);
			CHECK_IS(mtx_timedlock(&m, &later), thrd_success);
			for (int k = 0; k < 3; k++)
				CHECK_IS(mtx_unlock(&m), thrd_success);
			CHECK_IS(elsewhere(try_mtx, &m), thrd_busy);
		} else {
			CHECK_IS(mtx_trylock(&m), thrd_busy);
		}
		CHECK_IS(mtx_unlock(&m), thrd_success);
		CHECK_IS(elsewhere(try_mtx, &m), thrd_success);
		CHECK_IS(mtx_timedlock(&m, &later), thrd_success);
		CHECK_IS(mtx_unlock(&m), thrd_success);
		mtx_destroy(&m);
	}
}

static int count(void *arg)
{
	(void)arg;
	for (int i = 0; i < 20000; i++) {
		CHECK_IS(mtx_lock(&m), thrd_success);
		counter++;
		CHECK_IS(mtx_unlock(&m), thrd_success);
	}
	return 7;
}

static int wait_for_it(void *arg)
{
	CHECK_IS(mtx_lock(&m), thrd_success);
	ready++;
	while (!released)
		CHECK_IS(cnd_wait(&c, &m), thrd_success);
	released -= arg == NULL;
	CHECK_IS(mtx_unlock(&m), thrd_success);
	return 0;
}

static void await_ready(int n)
{
	for (bool done = false; !done; thrd_yield()) {
		CHECK_IS(mtx_lock(&m), thrd_success);
		done = ready == n;
		CHECK_IS(mtx_unlock(&m), thrd_success);
	}
}

static void conditions(void)
{
	struct timespec t = from_now(CLOCK_REALTIME, 10000000);
	thrd_t threads[3];
	int result;

	CHECK_IS(mtx_init(&m, mtx_plain), thrd_success);
	CHECK_IS(cnd_init(&c), thrd_success);
	for (int i = 0; i < 3; i++)
		CHECK_IS(thrd_create(&threads[i], count, NULL), thrd_success);
	for (int i = 0; i < 3; i++) {
		CHECK_IS(thrd_join(threads[i], &result), thrd_success);
		CHECK_IS(result, 7);
	}
	CHECK_IS(counter, 60000);
	for (int broadcast = 0; broadcast < 2; broadcast++) {
		ready = released = 0;
		for (int i = 0; i < 3; i++)
			CHECK_IS(thrd_create(&threads[i], wait_for_it, broadcast ? &c : NULL), thrd_success);
		await_ready(3);
		for (int i = 0; i < (broadcast ? 1 : 3); i++) {
			CHECK_IS(mtx_lock(&m), thrd_success);
			released++;
			CHECK_IS(broadcast ? cnd_broadcast(&c) : cnd_signal(&c), thrd_success);
			CHECK_IS(mtx_unlock(&m), thrd_success);
		}
		for (int i = 0; i < 3; i++)
			CHECK_IS(thrd_join(threads[i], NULL), thrd_success);
	}
	CHECK_IS(mtx_lock(&m), thrd_success);
	CHECK_IS(cnd_timedwait(&c, &m, &t), thrd_timedout);
	CHECK(reached(CLOCK_REALTIME, &t), "it returned before the time");
	CHECK_IS(mtx_unlock(&m), thrd_success);
	cnd_destroy(&c);
	mtx_destroy(&m);
}

static once_flag flag = ONCE_FLAG_INIT;
static int called;

static void call(void)
{
	usleep(2000);
	called++;
}

static int call_it(void *arg)
{
	(void)arg;
	call_once(&flag, call);
	CHECK_IS(called, 1);
	return 0;
}

/* A mutex of glibc's kind and one of C11 are the same object. */
static void mixed(void)
{
	CHECK_IS(mtx_init(&m, mtx_plain), thrd_success);
	ok(pthread_mutex_lock((pthread_mutex_t *)&m));
	CHECK_IS(elsewhere(try_mtx, &m), thrd_busy);
	CHECK_IS(mtx_unlock(&m), thrd_success);
	CHECK_IS(mtx_lock(&m), thrd_success);
	CHECK_IS(elsewhere(try_it, &m), EBUSY);
	ok(pthread_mutex_unlock((pthread_mutex_t *)&m));
	mtx_destroy(&m);
}

int main(void)
{
	thrd_t threads[4];

	mutexes();
	no_type();
	conditions();
	mixed();
	for (int i = 0; i < 4; i++)
		CHECK_IS(thrd_create(&threads[i], call_it, NULL), thrd_success);
	for (int i = 0; i < 4; i++)
		CHECK_IS(thrd_join(threads[i], NULL), thrd_success);
	return 0;
}
