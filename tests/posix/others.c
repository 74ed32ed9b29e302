/* SPDX-License-Identifier: MIT */
/* What an interposer leaves to glibc goes on working beside it: rwlock, barrier, spinlock, semaphore, C11. */
#include <semaphore.h>
#include <threads.h>

#include "tests/posix/posix.h"

static const struct timespec past = {.tv_sec = 1};

static void *read_too(void *arg)
{
	pthread_rwlock_t *l = arg;

	ok(pthread_rwlock_tryrdlock(l)); /* readers do not exclude one another */
	ok(pthread_rwlock_unlock(l));
	ok(pthread_rwlock_rdlock(l));
	CHECK_IS(pthread_rwlock_trywrlock(l), EBUSY);
	CHECK_IS(pthread_rwlock_timedwrlock(l, &past), ETIMEDOUT);
	ok(pthread_rwlock_unlock(l));
	return NULL;
}

static void *kept_out(void *l)
{
	CHECK_IS(pthread_rwlock_tryrdlock(l), EBUSY);
	CHECK_IS(pthread_rwlock_trywrlock(l), EBUSY);
	CHECK_IS(pthread_rwlock_clockrdlock(l, CLOCK_MONOTONIC, &past), ETIMEDOUT);
	return NULL;
}

static void rwlock(void)
{
	static pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;

	ok(pthread_rwlock_rdlock(&l));
	elsewhere(read_too, &l);
	ok(pthread_rwlock_unlock(&l));
	ok(pthread_rwlock_wrlock(&l));
	elsewhere(kept_out, &l);
	ok(pthread_rwlock_unlock(&l));
	ok(pthread_rwlock_destroy(&l));
}

static void *meet(void *b)
{
	long serial = 0;

	for (int i = 0; i < 100; i++)
		serial += pthread_barrier_wait(b) == PTHREAD_BARRIER_SERIAL_THREAD;
	return (void *)serial;
}

static void barrier(void)
{
	pthread_barrier_t b;
	pthread_t threads[3];
	long serial = 0;

	ok(pthread_barrier_init(&b, NULL, 3));
	for (int i = 0; i < 3; i++)
		threads[i] = check_thread(meet, &b);
	for (int i = 0; i < 3; i++)
		serial += (long)check_join(threads[i]);
	CHECK_IS(serial, 100);
	ok(pthread_barrier_destroy(&b));
}

static void *try_spin(void *l)
{
	return (void *)(long)pthread_spin_trylock(l);
}

static void *post(void *s)
{
	return (void *)(long)sem_post(s);
}

static void spin_and_semaphore(void)
{
	pthread_spinlock_t l;
	pthread_t poster;
	sem_t s;

	ok(pthread_spin_init(&l, PTHREAD_PROCESS_PRIVATE));
	ok(pthread_spin_lock(&l));
	CHECK_IS(elsewhere(try_spin, (void *)&l), EBUSY);
	ok(pthread_spin_unlock(&l));
	ok(sem_init(&s, 0, 0));
	poster = check_thread(post, &s);
	ok(sem_wait(&s));
	CHECK_IS(sem_timedwait(&s, &past), -1);
	check_join(poster);
}

struct c11 {
	mtx_t m;
	cnd_t c;
	int turn;
};

static int c11_play(struct c11 *p, int me)
{
	CHECK_IS(mtx_lock(&p->m), thrd_success);
	for (int i = 0; i < 500; i++) {
		while (p->turn != me)
			CHECK_IS(cnd_wait(&p->c, &p->m), thrd_success);
		p->turn = 1 - me;
		CHECK_IS(cnd_signal(&p->c), thrd_success);
	}
	CHECK_IS(mtx_unlock(&p->m), thrd_success);
	return 7;
}

static int c11_second(void *p)
{
	return c11_play(p, 1);
}

static void c11(void)
{
	struct c11 p = {.turn = 0};
	thrd_t other;
	mtx_t r;
	int result;

	CHECK_IS(mtx_init(&p.m, mtx_timed), thrd_success);
	CHECK_IS(cnd_init(&p.c), thrd_success);
	CHECK_IS(thrd_create(&other, c11_second, &p), thrd_success);
	c11_play(&p, 0);
	CHECK_IS(thrd_join(other, &result), thrd_success);
	CHECK_IS(result, 7);
	CHECK_IS(mtx_lock(&p.m), thrd_success);
	CHECK_IS(mtx_trylock(&p.m), thrd_busy);
	CHECK_IS(mtx_timedlock(&p.m, &past), thrd_timedout);
	CHECK_IS(cnd_timedwait(&p.c, &p.m, &past), thrd_timedout);
	CHECK_IS(mtx_unlock(&p.m), thrd_success);
	CHECK_IS(mtx_init(&r, mtx_plain | mtx_recursive), thrd_success);
	CHECK_IS(mtx_lock(&r), thrd_success);
	CHECK_IS(mtx_lock(&r), thrd_success);
	CHECK_IS(mtx_unlock(&r), thrd_success);
	CHECK_IS(mtx_unlock(&r), thrd_success);
}

static int calls;

static void call(void)
{
	calls++;
}

int main(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	rwlock();
	barrier();
	spin_and_semaphore();
	c11();
	ok(pthread_once(&once, call));
	ok(pthread_once(&once, call));
	CHECK_IS(calls, 1);
	return 0;
}
