/* SPDX-License-Identifier: MIT */
/* Semaphores: no token is lost or made, deadlines, signals, cancellation, and a process without an interposer at the
 * other end. */
#include <semaphore.h>
#include <signal.h>

#include "tests/posix/posix.h"

enum how { WAIT, TIMEDWAIT, CLOCKWAIT, WAYS };

/* Whatever a wait may return. */
static int wait_so(sem_t *sem, enum how how)
{
	struct timespec abs = from_now(how == TIMEDWAIT ? CLOCK_REALTIME : CLOCK_MONOTONIC, LONG_WAIT);

	return how == WAIT        ? sem_wait(sem)
	       : how == TIMEDWAIT ? sem_timedwait(sem, &abs)
				  : sem_clockwait(sem, CLOCK_MONOTONIC, &abs);
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

#define PLACES 3
static sem_t place[PLACES];
static int each, at_work, most_at_work;

static void *pass_on(void *argument)
{
	long own = (long)argument;

	for (int i = 0; i < each; i++) {
		int now;

		errno = 0;
		ok(wait_so(&place[own % PLACES], (enum how)((own + i) % WAYS)));
		CHECK_IS(errno, 0);
		now = __atomic_add_fetch(&at_work, 1, __ATOMIC_SEQ_CST);
		if (now > __atomic_load_n(&most_at_work, __ATOMIC_RELAXED))
			__atomic_store_n(&most_at_work, now, __ATOMIC_RELAXED);
		__atomic_sub_fetch(&at_work, 1, __ATOMIC_SEQ_CST);
		ok(sem_post(&place[(own + 1) % PLACES]));
	}
	return NULL;
}

static void test_ring(int threads, int tokens)
{
	pthread_t all[12];
	int value;

	each = rounds(3000);
	most_at_work = 0;
	for (int i = 0; i < PLACES; i++)
		ok(sem_init(&place[i], 0, i == 0 ? (unsigned int)tokens : 0));
	for (long i = 0; i < threads; i++)
		all[i] = check_thread(pass_on, (void *)i);
	for (int i = 0; i < threads; i++)
		check_join(all[i]);
	CHECK(most_at_work >= 1 && most_at_work <= tokens, "%d of %d tokens", most_at_work, tokens);
	for (int i = 0; i < PLACES; i++) { /* every place has had as many tokens as it has given */
		ok(sem_getvalue(&place[i], &value));
		CHECK_IS(value, i == 0 ? tokens : 0);
		ok(sem_destroy(&place[i]));
	}
}

/* ---- deadlines --------------------------------------------------------------------------------------------------- */

static void test_refused(void)
{
	struct timespec past = {1, 0}, wrong = {1, 1000000000};
	sem_t sem;

	ok(sem_init(&sem, 0, 1));
	CHECK_IS(sem_timedwait(&sem, &wrong), -1);
	CHECK_IS(errno, EINVAL);
	CHECK_IS(sem_clockwait(&sem, CLOCK_MONOTONIC, &wrong), -1);
	CHECK_IS(errno, EINVAL);
	CHECK_IS(sem_clockwait(&sem, CLOCK_PROCESS_CPUTIME_ID, &past), -1);
	CHECK_IS(errno, EINVAL);
	errno = 0;
	ok(sem_timedwait(&sem, &past)); /* there is a token */
	CHECK_IS(errno, 0);
	ok(sem_destroy(&sem));
}

static void too_late(sem_t *sem, clockid_t clock, const struct timespec *abs)
{
	CHECK_IS(clock == CLOCK_REALTIME ? sem_timedwait(sem, abs) : sem_clockwait(sem, clock, abs), -1);
	CHECK_IS(errno, ETIMEDOUT);
	CHECK(reached(clock, abs));
}

static void test_deadlines(void)
{
	sem_t sem;

	ok(sem_init(&sem, 0, 0));
	too_late(&sem, CLOCK_REALTIME, &(struct timespec){1, 0});
	too_late(&sem, CLOCK_MONOTONIC, &(struct timespec){1, 0});
	for (int i = 0; i < 20; i++) { /* from before it would sleep to after */
		struct timespec real = from_now(CLOCK_REALTIME, 5000l * i);
		struct timespec monotonic = from_now(CLOCK_MONOTONIC, 5000l * i);

		too_late(&sem, CLOCK_REALTIME, &real);
		too_late(&sem, CLOCK_MONOTONIC, &monotonic);
	}
	ok(sem_destroy(&sem));
}

/* ---- signals and cancellation ------------------------------------------------------------------------------------ */

struct waiter {
	sem_t sem;
	enum how how;
	int tid, error;
};

static void *wait_in(void *argument)
{
	struct waiter *w = argument;

	tell(&w->tid, gettid());
	w->error = wait_so(&w->sem, w->how) ? errno : 0;
	return NULL;
}

static pthread_t asleep_in(struct waiter *w, enum how how)
{
	pthread_t thread;

	*w = (struct waiter){.how = how, .error = -1};
	ok(sem_init(&w->sem, 0, 0));
	thread = check_thread(wait_in, w);
	await(&w->tid, 1);
	while (!sleeps(w->tid))
		sched_yield();
	return thread;
}

static void no_op(int number)
{
	(void)number;
}

static void test_signal(enum how how)
{
	struct sigaction action = {.sa_handler = no_op};
	struct waiter w;
	pthread_t thread;

	ok(sigaction(SIGUSR1, &action, NULL));
	thread = asleep_in(&w, how);
	ok(pthread_kill(thread, SIGUSR1));
	check_join(thread);
	CHECK_IS(w.error, EINTR);
	ok(sem_destroy(&w.sem));
}

static void *wait_cancelled(void *argument)
{
	ok(pthread_cancel(pthread_self()));
	wait_in(argument);
	return NULL;
}

static void test_cancellation(enum how how)
{
	struct waiter w;
	pthread_t thread = asleep_in(&w, how);
	int value;

	ok(pthread_cancel(thread));
	CHECK(check_join(thread) == PTHREAD_CANCELED);
	CHECK_IS(w.error, -1);
	ok(sem_post(&w.sem));
	if (how != CLOCKWAIT) { /* a cancellation point also where there is a token; glibc's sem_clockwait is not */
		CHECK(check_join(check_thread(wait_cancelled, &w)) == PTHREAD_CANCELED);
		ok(sem_getvalue(&w.sem, &value));
		CHECK_IS(value, 1);
	}
	ok(sem_destroy(&w.sem));
}

#define TOKENS 100
#define BOUND 64 /* a wait of so many acts on it at the latest */

static void *cancelled_by_glibc(void *argument)
{
	int (*cancel)(pthread_t);
	void *glibc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

	CHECK(glibc, "%s", dlerror());
	*(void **)&cancel = dlsym(glibc, "pthread_cancel");
	CHECK(cancel, "%s", dlerror());
	ok(cancel(pthread_self()));
	for (int i = 0; i < TOKENS; i++)
		wait_in(argument);
	return NULL;
}

/* By glibc's function, past an interposer's, and before that one's has been called: waits that find tokens act on it,
 * too, glibc's at once. */
static void test_cancelled_by_glibc(enum how how)
{
	struct waiter w = {.how = how};
	int value;

	ok(sem_init(&w.sem, 0, TOKENS));
	CHECK(check_join(check_thread(cancelled_by_glibc, &w)) == PTHREAD_CANCELED);
	ok(sem_getvalue(&w.sem, &value));
	CHECK(value > TOKENS - BOUND, "%d tokens are left", value);
	ok(sem_destroy(&w.sem));
}

/* ---- processes --------------------------------------------------------------------------------------------------- */

#define EXCHANGES 2000

static void exchange(sem_t *pair, int own)
{
	for (int i = 0; i < EXCHANGES; i++) {
		ok(wait_so(&pair[own], (enum how)(i % WAYS)));
		ok(sem_post(&pair[!own]));
	}
}

static void test_processes(char *self)
{
	int fd = new_shared_page(), value;
	sem_t *pair = shared_page(fd);
	pid_t other;

	ok(sem_init(&pair[0], 1, 1));
	ok(sem_init(&pair[1], 1, 0));
	other = start_on_glibc(self, fd);
	exchange(pair, 0);
	reap(other);
	ok(sem_getvalue(&pair[0], &value));
	CHECK_IS(value, 1);
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		exchange(shared_page(atoi(argv[1])), 1);
		return 0;
	}
	test_ring(3, 1);
	test_ring(6, 2);
	test_ring(12, 5);
	test_refused();
	test_deadlines();
	test_cancelled_by_glibc(WAIT);
	test_cancelled_by_glibc(TIMEDWAIT);
	for (enum how how = WAIT; how < WAYS; how++) {
		test_signal(how);
		test_cancellation(how);
	}
	test_processes(argv[0]);
	return 0;
}
