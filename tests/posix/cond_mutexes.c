/* SPDX-License-Identifier: MIT */
/* Every kind of condition variable with every kind of mutex, in one process and across a fork. */
#include <sys/mman.h>

#include "tests/posix/posix.h"

struct kind {
	int type, robust, protocol, shared;
};

static const struct kind kinds[] = {
	{.type = PTHREAD_MUTEX_NORMAL},
	{.type = PTHREAD_MUTEX_ADAPTIVE_NP},
	{.type = PTHREAD_MUTEX_ERRORCHECK},
	{.type = PTHREAD_MUTEX_RECURSIVE},
	{.robust = PTHREAD_MUTEX_ROBUST},
	{.type = PTHREAD_MUTEX_ERRORCHECK, .robust = PTHREAD_MUTEX_ROBUST, .shared = PTHREAD_PROCESS_SHARED},
	{.protocol = PTHREAD_PRIO_INHERIT},
	{.shared = PTHREAD_PROCESS_SHARED},
};

struct both {
	pthread_mutex_t m;
	pthread_cond_t c;
	int turn, waiting;
};

static void init(struct both *b, const struct kind *k, int cond_shared)
{
	pthread_mutexattr_t mutex;
	pthread_condattr_t cond;

	memset(b, 0, sizeof(*b));
	ok(pthread_mutexattr_init(&mutex));
	ok(pthread_mutexattr_settype(&mutex, k->type));
	ok(pthread_mutexattr_setrobust(&mutex, k->robust));
	ok(pthread_mutexattr_setprotocol(&mutex, k->protocol));
	ok(pthread_mutexattr_setpshared(&mutex, k->shared));
	ok(pthread_mutex_init(&b->m, &mutex));
	ok(pthread_condattr_init(&cond));
	ok(pthread_condattr_setpshared(&cond, cond_shared));
	ok(pthread_condattr_setclock(&cond, CLOCK_MONOTONIC));
	ok(pthread_cond_init(&b->c, &cond));
}

static void play(struct both *b, int me, int rounds)
{
	ok(pthread_mutex_lock(&b->m));
	for (int i = 0; i < rounds; i++) {
		while (b->turn != me)
			ok(pthread_cond_wait(&b->c, &b->m));
		b->turn = 1 - me;
		ok(i % 2 ? pthread_cond_signal(&b->c) : pthread_cond_broadcast(&b->c));
	}
	ok(pthread_mutex_unlock(&b->m));
}

static void *second_player(void *b)
{
	play(b, 1, 500);
	return NULL;
}

static void times_out(struct both *b)
{
	struct timespec soon = from_now(CLOCK_MONOTONIC, 1000000);

	ok(pthread_mutex_lock(&b->m));
	CHECK_IS(pthread_cond_timedwait(&b->c, &b->m, &soon), ETIMEDOUT);
	CHECK(reached(CLOCK_MONOTONIC, &soon));
	CHECK_IS(pthread_cond_clockwait(&b->c, &b->m, CLOCK_REALTIME, &(struct timespec){1, 0}), ETIMEDOUT);
	CHECK_IS(elsewhere(try_it, &b->m), EBUSY);
	ok(pthread_mutex_unlock(&b->m));
}

static void unlock(void *m)
{
	ok(pthread_mutex_unlock(m));
}

static void *be_cancelled(void *arg)
{
	struct both *b = arg;

	ok(pthread_mutex_lock(&b->m));
	pthread_cleanup_push(unlock, &b->m);
	tell(&b->waiting, 1);
	for (;;)
		ok(pthread_cond_wait(&b->c, &b->m));
	pthread_cleanup_pop(0);
	return NULL;
}

static void one_process(const struct kind *k, int cond_shared)
{
	struct both b;
	pthread_t other;

	init(&b, k, cond_shared);
	if (k->type == PTHREAD_MUTEX_ERRORCHECK || k->type == PTHREAD_MUTEX_RECURSIVE)
		CHECK_IS(pthread_cond_wait(&b.c, &b.m), EPERM);
	times_out(&b);
	other = check_thread(second_player, &b);
	play(&b, 0, 500);
	check_join(other);
	other = check_thread(be_cancelled, &b);
	await(&b.waiting, 1);
	ok(pthread_mutex_lock(&b.m));
	ok(pthread_mutex_unlock(&b.m));
	ok(pthread_cancel(other));
	CHECK(check_join(other) == PTHREAD_CANCELED);
	ok(elsewhere(try_it, &b.m));
	times_out(&b);
	ok(pthread_cond_destroy(&b.c));
	ok(pthread_mutex_destroy(&b.m));
}

static void across_fork(const struct kind *k)
{
	struct both *b = mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t child;

	CHECK(b != MAP_FAILED);
	init(b, k, PTHREAD_PROCESS_SHARED);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		alarm(WATCHDOG_SECONDS);
		play(b, 1, 1000);
		_exit(0);
	}
	play(b, 0, 1000);
	reap(child);
	munmap(b, sizeof(*b));
}

/* As in glibc, waiting with a mutex that is locked twice gives up one level: nobody else gets in. */
static void two_levels(void)
{
	struct timespec soon = from_now(CLOCK_MONOTONIC, 1000000);
	struct both b;

	init(&b, &kinds[3], PTHREAD_PROCESS_PRIVATE);
	ok(pthread_mutex_lock(&b.m));
	ok(pthread_mutex_lock(&b.m));
	CHECK_IS(pthread_cond_timedwait(&b.c, &b.m, &soon), ETIMEDOUT);
	CHECK_IS(elsewhere(try_it, &b.m), EBUSY);
	ok(pthread_mutex_unlock(&b.m));
	ok(pthread_mutex_unlock(&b.m));
	CHECK_IS(pthread_mutex_unlock(&b.m), EPERM);
}

static void *wait_for_heritage(void *arg)
{
	struct both *b = arg;
	long result;

	ok(pthread_mutex_lock(&b->m));
	tell(&b->waiting, b->waiting + 1);
	result = pthread_cond_wait(&b->c, &b->m);
	if (result == EOWNERDEAD && b->turn) /* the test wants it repaired */
		ok(pthread_mutex_consistent(&b->m));
	if (result != ENOTRECOVERABLE)
		ok(pthread_mutex_unlock(&b->m));
	return (void *)result;
}

static void *signal_and_die(void *arg)
{
	struct both *b = arg;

	ok(pthread_mutex_lock(&b->m));
	ok(pthread_cond_broadcast(&b->c));
	return NULL;
}

/* The owner of a robust mutex dies, having released two waiters: one finds out, the other what became of it. */
static void owner_dies(int cond_shared, int repair)
{
	struct both b;
	pthread_t waiters[2];
	long results;

	init(&b, &kinds[4], cond_shared);
	b.turn = repair;
	for (int i = 0; i < 2; i++)
		waiters[i] = check_thread(wait_for_heritage, &b);
	await(&b.waiting, 2);
	ok(pthread_mutex_lock(&b.m)); /* so both wait */
	ok(pthread_mutex_unlock(&b.m));
	ok(elsewhere(signal_and_die, &b));
	results = (long)check_join(waiters[0]);
	results += (long)check_join(waiters[1]);
	CHECK_IS(results, EOWNERDEAD + (repair ? 0 : ENOTRECOVERABLE));
	if (repair)
		times_out(&b);
	ok(pthread_cond_destroy(&b.c)); /* nobody is left in it */
}

int main(void)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		one_process(&kinds[i], PTHREAD_PROCESS_PRIVATE);
		one_process(&kinds[i], PTHREAD_PROCESS_SHARED);
		if (kinds[i].shared)
			across_fork(&kinds[i]);
	}
	two_levels();
	for (int repair = 0; repair < 2; repair++) {
		owner_dies(PTHREAD_PROCESS_PRIVATE, repair);
		owner_dies(PTHREAD_PROCESS_SHARED, repair);
	}
	return 0;
}
