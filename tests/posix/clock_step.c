/* SPDX-License-Identifier: MIT */
/* The clock is set while threads wait: a deadline on CLOCK_REALTIME follows it, forward and back, and one on
 * CLOCK_MONOTONIC does not. Not a test of ctest: it sets the machine's clock, and so needs a machine of its own.
 * `make check-kernels` runs it in its guests, where FG_TEST_SETS_CLOCK is set. */
#include <semaphore.h>
#include <threads.h>

#include "tests/posix/posix.h"

#define SECOND 1000000000ll
#define STEP_S 7200
#define FAR_S 3600 /* a step passes it */
#define SOON_NS 1500000000l
#define SETTLE_NS 2600000000ll /* by then each waiter is in the longest sleep between two looks at its deadline */
#define LATE_NS 300000000ll    /* after a step: so late a waiter may be at best, on an emulated machine */

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER, recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_rwlock_t readers = PTHREAD_RWLOCK_INITIALIZER, written = PTHREAD_RWLOCK_INITIALIZER,
			readers_np = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP,
			written_np = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static mtx_t held_c11;
static sem_t empty;

static int on_semaphore(int result)
{
	return result ? errno : 0;
}

static int as_errno(int result)
{
	return result == thrd_timedout ? ETIMEDOUT : result == thrd_success ? 0 : EINVAL;
}

static int on_cond(clockid_t clock, const struct timespec *t, bool by_clock)
{
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	int result;

	ok(pthread_mutex_lock(&mutex));
	do
		result = by_clock ? pthread_cond_clockwait(&cond, &mutex, clock, t)
				  : pthread_cond_timedwait(&cond, &mutex, t);
	while (result == 0); /* spurious */
	ok(pthread_mutex_unlock(&mutex));
	return result;
}

static int on_cnd(const struct timespec *t)
{
	mtx_t mutex;
	cnd_t cond;
	int result;

	ok(mtx_init(&mutex, mtx_plain));
	ok(cnd_init(&cond));
	ok(mtx_lock(&mutex));
	do
		result = cnd_timedwait(&cond, &mutex, t);
	while (result == thrd_success);
	return as_errno(result);
}

/* The waits, each with its name. `c` is the clock of those that have one; the others have CLOCK_REALTIME. */
#define WAITS(W)                                                                                                       \
	W(pthread_mutex_timedlock, false, pthread_mutex_timedlock(&held, t))                                           \
	W(recursive, false, pthread_mutex_timedlock(&recursive, t))                                                    \
	W(pthread_mutex_clocklock, true, pthread_mutex_clocklock(&held, c, t))                                         \
	W(pthread_cond_timedwait, false, on_cond(c, t, false))                                                         \
	W(pthread_cond_clockwait, true, on_cond(c, t, true))                                                           \
	W(pthread_rwlock_timedrdlock, false, pthread_rwlock_timedrdlock(&written, t))                                  \
	W(pthread_rwlock_timedwrlock, false, pthread_rwlock_timedwrlock(&readers, t))                                  \
	W(pthread_rwlock_clockrdlock, true, pthread_rwlock_clockrdlock(&written, c, t))                                \
	W(pthread_rwlock_clockwrlock, true, pthread_rwlock_clockwrlock(&written, c, t))                                \
	W(writers_first_timedrdlock, false, pthread_rwlock_timedrdlock(&written_np, t))                                \
	W(writers_first_timedwrlock, false, pthread_rwlock_timedwrlock(&readers_np, t))                                \
	W(sem_timedwait, false, on_semaphore(sem_timedwait(&empty, t)))                                                \
	W(sem_clockwait, true, on_semaphore(sem_clockwait(&empty, c, t)))                                              \
	W(mtx_timedlock, false, as_errno(mtx_timedlock(&held_c11, t)))                                                 \
	W(cnd_timedwait, false, on_cnd(t))

#define FUNCTION(name, clocked, call)                                                                                  \
	static int wait_##name(clockid_t c, const struct timespec *t)                                                  \
	{                                                                                                              \
		(void)c;                                                                                               \
		return call;                                                                                           \
	}
WAITS(FUNCTION)

#define ENTRY(name, clocked, call) {#name, clocked, wait_##name},
static const struct {
	const char *name;
	bool clocked;
	int (*wait)(clockid_t, const struct timespec *);
} waits[] = {WAITS(ENTRY)};
#define WAITS_N (sizeof(waits) / sizeof(waits[0]))

static struct waiter {
	pthread_t thread;
	size_t wait;
	clockid_t clock;
	struct timespec until;
	pid_t tid;
	int ended; /* at ended_ns of CLOCK_MONOTONIC */
	int64_t ended_ns;
} waiters[WAITS_N];

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * SECOND + t.tv_nsec;
}

static void *work(void *waiter)
{
	struct waiter *w = waiter;
	int result;

	__atomic_store_n(&w->tid, gettid(), __ATOMIC_RELEASE);
	result = waits[w->wait].wait(w->clock, &w->until);
	CHECK(result == ETIMEDOUT, "%s: %d", waits[w->wait].name, result);
	w->ended_ns = now_ns();
	tell(&w->ended, 1);
	return NULL;
}

static void pass(int64_t ns)
{
	const struct timespec moment = {ns / SECOND, ns % SECOND};

	CHECK_IS(clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL), 0);
}

static void step(int64_t seconds)
{
	struct timespec t;

	ok(clock_gettime(CLOCK_REALTIME, &t));
	t.tv_sec += seconds;
	ok(clock_settime(CLOCK_REALTIME, &t));
}

/* All wait for `from_now` on `clock`, and sleep. */
static void begin(clockid_t clock, int64_t seconds, long ns)
{
	for (size_t i = 0; i < WAITS_N; i++) {
		struct waiter *w = &waiters[i];

		*w = (struct waiter){.wait = i, .clock = clock, .until = from_now(clock, ns)};
		w->until.tv_sec += seconds;
		if (clock == CLOCK_REALTIME || waits[i].clocked)
			w->thread = check_thread(work, w);
	}
}

static void await_sleep(void)
{
	for (size_t i = 0; i < WAITS_N; i++) {
		pid_t tid;

		while (!(tid = __atomic_load_n(&waiters[i].tid, __ATOMIC_ACQUIRE)) || !sleeps(tid))
			pass(1000000);
	}
}

static void none_has_ended(void)
{
	for (size_t i = 0; i < WAITS_N; i++)
		CHECK(!__atomic_load_n(&waiters[i].ended, __ATOMIC_ACQUIRE), "%s: before its time", waits[i].name);
}

/* How late each wait was at best: an emulated machine on a busy host gives its threads no CPU for moments. */
#define ROUNDS 3
static int64_t least_ns[WAITS_N];

static void all_end(int round, int64_t at_ns)
{
	for (size_t i = 0; i < WAITS_N; i++) {
		int64_t ns;

		check_join(waiters[i].thread);
		ns = waiters[i].ended_ns - at_ns;
		if (round == 0 || ns < least_ns[i])
			least_ns[i] = ns;
	}
}

static void all_ended_at_once(const char *what)
{
	size_t late = 0;

	for (size_t i = 0; i < WAITS_N; i++) {
		printf("%s: %s ends after %.1f ms\n", what, waits[i].name, (double)least_ns[i] / 1e6);
		late += least_ns[i] > LATE_NS;
	}
	CHECK(late == 0, "%s: %zu waits end too late", what, late);
}

static void forward(int round)
{
	int64_t at;

	begin(CLOCK_REALTIME, FAR_S, 0);
	await_sleep();
	pass(SETTLE_NS);
	none_has_ended();
	at = now_ns();
	step(STEP_S);
	all_end(round, at);
}

static void back(int round)
{
	int64_t at;

	begin(CLOCK_REALTIME, 0, SOON_NS);
	step(-STEP_S);
	pass(SETTLE_NS);
	none_has_ended();
	at = now_ns();
	step(STEP_S);
	all_end(round, at);
}

static void monotonic(void)
{
	int64_t began = now_ns();

	begin(CLOCK_MONOTONIC, 0, SOON_NS);
	step(STEP_S);
	for (size_t i = 0; i < WAITS_N; i++) {
		if (!waits[i].clocked)
			continue;
		check_join(waiters[i].thread);
		CHECK(waiters[i].ended_ns - began >= SOON_NS, "%s: CLOCK_MONOTONIC was not set", waits[i].name);
	}
}

int main(void)
{
	if (!getenv("FG_TEST_SETS_CLOCK")) {
		puts("skipped: it sets the machine's clock");
		return 77;
	}
	ok(mtx_init(&held_c11, mtx_timed));
	ok(sem_init(&empty, 0, 0));
	ok(pthread_mutex_lock(&held));
	ok(pthread_mutex_lock(&recursive));
	ok(mtx_lock(&held_c11));
	ok(pthread_rwlock_rdlock(&readers));
	ok(pthread_rwlock_rdlock(&readers_np));
	ok(pthread_rwlock_wrlock(&written));
	ok(pthread_rwlock_wrlock(&written_np));
	for (int i = 0; i < ROUNDS; i++)
		forward(i);
	all_ended_at_once("forward");
	for (int i = 0; i < ROUNDS; i++)
		back(i);
	all_ended_at_once("back, then forward");
	monotonic();
	return 0;
}
