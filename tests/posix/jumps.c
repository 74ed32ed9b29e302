/* SPDX-License-Identifier: MIT */
/* A signal handler jumps out of a wait. Out of a condition variable's the thread comes with the mutex held, as by
 * cancellation. No list keeps the waiter, whose stack is used for something else. */
#include <setjmp.h>
#include <signal.h>
#include <threads.h>

#include "tests/posix/posix.h"

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
static int tid, jumped, done;
static __thread sigjmp_buf back;

static void jump(int number)
{
	siglongjmp(back, number);
}

/* Where the waiter was there is nothing now. */
__attribute__((noinline)) static void scribble(void)
{
	volatile char stack[16384];

	for (size_t i = 0; i < sizeof(stack); i++)
		stack[i] = -1;
}

static void await_asleep(void)
{
	const struct timespec moment = {0, 20000};
	char name[64], text[256], *state = NULL;

	await(&tid, 1);
	snprintf(name, sizeof(name), "/proc/self/task/%d/stat", tid);
	do {
		FILE *file = fopen(name, "r");

		CHECK(file != NULL);
		CHECK(fgets(text, sizeof(text), file) != NULL);
		fclose(file);
		state = strrchr(text, ')');
		CHECK(state != NULL);
		nanosleep(&moment, NULL);
	} while (state[2] != 'S');
}

static int wait_by(int how)
{
	struct timespec late = from_now(how == 3 ? CLOCK_MONOTONIC : CLOCK_REALTIME, LONG_WAIT);

	switch (how) {
	case 0:
		return pthread_cond_wait(&c, &m);
	case 1:
		return pthread_cond_timedwait(&c, &m, &late);
	case 2:
		return cnd_wait((cnd_t *)&c, (mtx_t *)&m);
	default:
		return pthread_cond_clockwait(&c, &m, CLOCK_MONOTONIC, &late);
	}
}

static void *waits(void *how)
{
	int type;

	if (!sigsetjmp(back, 1)) {
		ok(pthread_mutex_lock(&m));
		tell(&tid, gettid());
		wait_by(*(int *)how);
		CHECK(false);
	}
	scribble();
	CHECK_IS(elsewhere(try_it, &m), EBUSY);
	if (ours()) { /* glibc 2.36 forgets it */
		ok(pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type));
		CHECK_IS(type, PTHREAD_CANCEL_DEFERRED);
	}
	ok(pthread_mutex_unlock(&m));
	tell(&jumped, 1);
	await(&done, 1); /* its stack stays, as it is */
	return NULL;
}

static void *signalled(void *arg)
{
	ok(pthread_mutex_lock(&m));
	tell(&tid, gettid());
	ok(pthread_cond_wait(&c, &m));
	ok(pthread_mutex_unlock(&m));
	return arg;
}

static void condition(int how)
{
	pthread_t jumper, waiter;

	tid = jumped = done = 0;
	jumper = check_thread(waits, &how);
	await_asleep();
	ok(pthread_kill(jumper, SIGUSR1));
	await(&jumped, 1);
	tid = 0;
	waiter = check_thread(signalled, NULL);
	await_asleep();
	ok(pthread_mutex_lock(&m));
	ok(pthread_cond_signal(&c)); /* the first waiter is the one that is there */
	ok(pthread_mutex_unlock(&m));
	check_join(waiter);
	ok(pthread_cond_broadcast(&c));
	tell(&done, 1);
	check_join(jumper);
	ok(pthread_cond_destroy(&c));
	ok(pthread_cond_init(&c, NULL));
}

static void lock_by(int writes)
{
	ok(writes ? pthread_rwlock_wrlock(&l) : pthread_rwlock_rdlock(&l));
}

static void *locks(void *writes)
{
	if (!sigsetjmp(back, 1)) {
		tell(&tid, gettid());
		lock_by(*(int *)writes);
		CHECK(false);
	}
	scribble();
	tell(&jumped, 1);
	await(&done, 1);
	return NULL;
}

static void *locks_cancellable(void *writes)
{
	ok(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL));
	tell(&tid, gettid());
	lock_by(*(int *)writes);
	return NULL;
}

static void rwlock(int writes)
{
	pthread_t waiter;

	tid = jumped = done = 0;
	lock_by(!writes);
	waiter = check_thread(locks, &writes);
	await_asleep();
	ok(pthread_kill(waiter, SIGUSR1));
	await(&jumped, 1);
	ok(pthread_rwlock_unlock(&l));
	ok(pthread_rwlock_trywrlock(&l));
	ok(pthread_rwlock_unlock(&l));
	tell(&done, 1);
	check_join(waiter);

	tid = 0;
	lock_by(!writes);
	waiter = check_thread(locks_cancellable, &writes);
	await_asleep();
	ok(pthread_cancel(waiter));
	CHECK(check_join(waiter) == PTHREAD_CANCELED);
	ok(pthread_rwlock_unlock(&l));
	ok(pthread_rwlock_trywrlock(&l));
	ok(pthread_rwlock_unlock(&l));
}

int main(void)
{
	const struct sigaction action = {.sa_handler = jump};

	ok(sigaction(SIGUSR1, &action, NULL));
	for (int how = 0; how < 4; how++)
		condition(how);
	for (int writes = 0; ours() && writes < 2; writes++) /* glibc's then stays locked */
		rwlock(writes);
	return 0;
}
