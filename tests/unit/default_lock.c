/* SPDX-License-Identifier: MIT */
/* The default lock where it is unusual: flags that no waiter stands behind, each way to wait, waiters that give up or
 * are stopped in it, a lease that begins, an unlock by another thread. With argument `blind` where there is no
 * membarrier. */
#include <fcntl.h>
#include <signal.h>

#include "tests/unit/counted_lock.h"
#include "tests/unit/forbid.h"

/* ---- the word, alone -------------------------------------------------------------------------------------------- */

static void test_flags_without_owner(void)
{
	const struct timespec past = {0, 0};

	for (int i = 0; i < FLAG_SETS; i++) {
		begin(NULL);
		lock.word = flag_set(i);
		CHECK(fgi_trylock(&lock), "a free lock (%#x) was refused", flag_set(i));
		CHECK(lock.word == (fgi_self() | flag_set(i)) && lock.ops == 1, "a flag was lost: %#x", lock.word);
		CHECK_SECTIONS(1);
		CHECK(!fgi_trylock(&lock) && lock.ops == 1);
		CHECK(fgi_timedlock(&lock, FGI_DEADLINE(CLOCK_MONOTONIC, &past)) == ETIMEDOUT);
		CHECK_SECTIONS(1);
		fgi_unlock(&lock);
		CHECK(lock.word == (flag_set(i) & ~NEEDY), "word %#x", lock.word);
		CHECK_SECTIONS(0);

		CHECK(fgi_timedlock(&lock, FGI_DEADLINE(CLOCK_REALTIME, &past)) == 0,
		      "free (%#x): the past does not matter", flag_set(i));
		fgi_unlock(&lock);

		lock.word = flag_set(i);
		fgi_lock(&lock);
		CHECK(lock.word == fgi_self(), "no waiter is counted: %#x", lock.word);
		fgi_unlock(&lock);
		CHECK(lock.word == 0);
		lock.word = flag_set(i);
		finish();
	}
}

static void test_release_keeps_flags(void)
{
	for (int i = 0; i < FLAG_SETS; i++) {
		begin(NULL);
		fgi_lock(&lock);
		lock.word |= flag_set(i);
		fgi_unlock(&lock);
		CHECK(lock.word == (flag_set(i) & ~NEEDY), "%#x is now %#x", flag_set(i), lock.word);
		finish();
	}
}

/* Hot or not, whatever flags stand there, whatever the monitor says. */
static void test_works_always(void)
{
	const struct fg_shared *const pages[] = {NULL, &quiet, &preempted, &idle};

	for (int i = 0; i < 4 * 2 * FLAG_SETS; i++) {
		begin(pages[i % 4]);
		lock.waiters = i / 4 % 2 ? FGI_HOT : 0;
		lock.word = flag_set(i / 8);
		finish();
	}
}

/* The next owner keeps the flags of waiters that are counted. */
static void test_next_owner_keeps_flags(void)
{
	begin(NULL);
	lock.word = NEEDY;
	lock.waiters = FGI_ONE_NEEDY;
	fgi_lock(&lock);
	CHECK(lock.word == (fgi_self() | NEEDY), "word %#x", lock.word);
	lock.waiters = FGI_ONE_CLOCKED;
	fgi_unlock(&lock);
	lock.word = NEEDY;
	fgi_lock(&lock);
	CHECK(lock.word == (fgi_self() | PARKED), "word %#x", lock.word);
	lock.waiters = FGI_ONE_CLOCKED + FGI_ONE_WATCHER; /* the watcher looks after it */
	fgi_unlock(&lock);
	lock.word = NEEDY;
	fgi_lock(&lock);
	CHECK(lock.word == fgi_self(), "word %#x", lock.word);
	fgi_unlock(&lock);
	lock.waiters = 0;
	finish();
}

/* ---- ways to wait ----------------------------------------------------------------------------------------------- */

static struct waiter {
	pthread_t thread;
	uint32_t tid;
	int fifo; /* its priority under SCHED_FIFO; 0: it has the usual policy */
	const uint32_t *parks;
	uint32_t came;
} waiters[3];
static uint32_t entered;

static void *waits(void *argument)
{
	struct waiter *me = argument;
	struct sched_param param = {.sched_priority = me->fifo};

	if (me->fifo)
		CHECK(pthread_setschedparam(pthread_self(), SCHED_FIFO, &param) == 0);
	me->parks = &fg_thread.parks;
	fg_store_release(&me->tid, fgi_self());
	fgi_lock(&lock);
	me->came = ++entered;
	fgi_unlock(&lock);
	CHECK_SECTIONS(0);
	return NULL;
}

static char state_of(uint32_t tid)
{
	char name[64], text[256] = "";
	ssize_t length;
	int file;

	snprintf(name, sizeof(name), "/proc/self/task/%u/stat", tid);
	file = open(name, O_RDONLY | O_CLOEXEC);
	CHECK(file >= 0, "%s: %m", name);
	length = read(file, text, sizeof(text) - 1);
	close(file);
	CHECK(length > 0 && strrchr(text, ')'));
	return strrchr(text, ')')[2];
}

static void start(int i, int fifo)
{
	waiters[i] = (struct waiter){.fifo = fifo};
	waiters[i].thread = check_thread(waits, &waiters[i]);
	while (!fg_load_acquire(&waiters[i].tid))
		sched_yield();
}

/* Starts the ith waiter, and waits until it is counted as one of `number`, and asleep. */
static void start_parked(int i, int fifo, uint32_t number)
{
	start(i, fifo);
	await_parked(&lock, number);
	while (state_of(waiters[i].tid) != 'S')
		sched_yield();
}

/* The owner sleeps, or a critical thread is preempted. With a clock: so the release need not wake it. */
static void check_parks_if_told(const struct fg_shared *page)
{
	begin(NULL);
	fgi_lock(&lock);
	fgi_monitor_attach(page);
	start_parked(0, 0, 1);
	CHECK((lock.word & PARKED) || fgi_needy(lock.waiters), "word %#x", lock.word);
	fgi_unlock(&lock);
	check_join(waiters[0].thread);
	finish();
}

static void test_parks_if_told(void)
{
	static struct fg_shared sleeps = {.heartbeat_ns = INT64_MAX};

	sleeps.off_cpu[fg_off_cpu_place(fgi_self())] = fgi_self();
	check_parks_if_told(&sleeps);
	check_parks_if_told(&preempted);
}

/* A CPU idles: the release wakes a waiter that has a clock. */
static void test_wakes_for_idle_cpu(void)
{
	bool seen = false;

	for (int i = 0; i < 100 && !seen; i++) {
		begin(&preempted);
		fgi_lock(&lock);
		start_parked(0, 0, 1);
		attach(&idle);
		fgi_unlock(&lock);
		check_join(waiters[0].thread);
		seen = woken == 1;
		finish();
	}
	CHECK(seen, "no release has woken the waiter");
}

/* Without a monitor, and where nothing moves with one, a parked waiter becomes needy: the release wakes it. */
static void test_release_wakes_needy(void)
{
	const struct fg_shared *const pages[] = {NULL, &quiet, &preempted};

	for (int i = 0; i < 3; i++) {
		begin(pages[i]);
		fgi_lock(&lock);
		start(0, 0);
		await_bits(&lock.word, NEEDY);
		fgi_unlock(&lock);
		check_join(waiters[0].thread);
		CHECK(wakes == 1, "%u wake-ups", wakes);
		CHECK(!(lock.word & NEEDY), "word %#x", lock.word);
		finish();
	}
}

static bool may_be_real_time(void)
{
	struct sched_param fifo = {.sched_priority = 1}, usual = {0};

	if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &fifo) != 0)
		return false;
	return pthread_setschedparam(pthread_self(), SCHED_OTHER, &usual) == 0;
}

/* By priority, whatever the order in which they came. Each sleeps without a clock, the first one after a sleep with
 * one: that may change the word for another that is about to fall asleep, which then parks once more. */
static void test_real_time(void)
{
	const struct fg_shared *const pages[] = {NULL, &quiet};
	uint32_t parks[3];

	for (int i = 0; i < 2 && may_be_real_time(); i++) {
		begin(pages[i]);
		entered = 0;
		fgi_lock(&lock);
		start_parked(0, 0, 1);
		start_parked(1, 1, 2);
		start_parked(2, 5, 3);
		for (int k = 0; k < 3; k++) {
			while ((!k && fg_load_relaxed(waiters[0].parks) < 2) || state_of(waiters[k].tid) != 'S')
				sched_yield();
			parks[k] = fg_load_relaxed(waiters[k].parks);
		}
		fgi_nap(4 * FGI_LONG_WAIT_NS); /* longer than a clock */
		for (int k = 0; k < 3; k++)
			CHECK(fg_load_relaxed(waiters[k].parks) == parks[k], "waiter %d had a clock", k);
		CHECK(fgi_needy(lock.waiters) == 3 && (lock.word & NEEDY), "not needy: %#x", lock.waiters);
		fgi_unlock(&lock);
		for (int k = 0; k < 3; k++)
			check_join(waiters[k].thread);
		CHECK(waiters[2].came == 1 && waiters[1].came == 2, "came %u, %u, %u", waiters[0].came, waiters[1].came,
		      waiters[2].came);
		finish();
	}
}

/* ---- the head waiter's demand ----------------------------------------------------------------------------------- */

static void *takes_often(void *argument)
{
	for (int i = 0; i < 20; i++) {
		if (argument)
			fgi_lock(&lock);
		else
			while (!fgi_trylock(&lock))
				sched_yield();
		fgi_unlock(&lock);
	}
	return NULL;
}

static void check_others_get_by(void)
{
	pthread_t thread[4];

	for (uintptr_t i = 0; i < 4; i++)
		thread[i] = check_thread(takes_often, (void *)i);
	for (int i = 0; i < 4; i++)
		check_join(thread[i]);
}

/* The word is demanded and free, waiters are counted, and none comes. */
static void test_nobody_comes(void)
{
	const struct fg_shared *const pages[] = {NULL, &quiet, &preempted};

	for (int i = 0; i < 6; i++) {
		begin(pages[i % 3]);
		lock.word = FLAGS;
		lock.waiters = FGI_ONE_NEEDY + FGI_ONE_CLOCKED + (i < 3 ? 0 : FGI_HOT + FGI_ONE_WATCHER);
		check_others_get_by();
		lock.waiters = 0;
		finish();
	}
}

/* ---- waiters that are stopped ----------------------------------------------------------------------------------- */

static uint32_t handling, go_on;

static void handler_waits(int signal)
{
	(void)signal;
	fg_store_release(&handling, 1);
	while (!fg_load_acquire(&go_on))
		sched_yield();
}

/* As a collector that stops threads, wherever they are, might do; and the handler wants the same lock. */
static void handler_locks(int signal)
{
	(void)signal;
	fg_store_release(&handling, 1);
	fgi_lock(&lock);
	fgi_unlock(&lock);
	fg_store_release(&go_on, 1);
}

static void stop(pthread_t thread, void (*handler)(int))
{
	struct sigaction action = {.sa_handler = handler};

	handling = go_on = 0;
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	CHECK(pthread_kill(thread, SIGUSR1) == 0);
	while (!fg_load_acquire(&handling))
		sched_yield();
}

/* A head waiter is stopped, beside another that is parked: that and those that come get the free lock. */
static void test_stopped_waiter(void)
{
	const struct fg_shared *const pages[] = {NULL, &quiet, &preempted};

	for (int i = 0; i < 3; i++) {
		begin(pages[i]);
		fgi_lock(&lock);
		start(0, 0);
		await_bits(&lock.word, DEMAND);
		stop(waiters[0].thread, handler_waits);
		start(1, 0);
		if (i != 1)
			await_bits(&lock.word, NEEDY);
		fgi_unlock(&lock);
		check_join(waiters[1].thread);
		check_others_get_by();
		fg_store_release(&go_on, 1);
		check_join(waiters[0].thread);
		finish();
	}
}

static void test_handler_waits_for_the_same(void)
{
	begin(NULL);
	fgi_lock(&lock);
	start(0, 0);
	await_bits(&lock.word, NEEDY | DEMAND);
	stop(waiters[0].thread, handler_locks);
	fgi_unlock(&lock);
	check_join(waiters[0].thread);
	CHECK(fg_load_acquire(&go_on));
	finish();
}

/* ---- waiters that give up --------------------------------------------------------------------------------------- */

static uint32_t given_up; /* how many have */

static void *gives_up(void *clock_)
{
	clockid_t clock = (clockid_t)(intptr_t)clock_;
	uint64_t began = fgi_now_ns(CLOCK_MONOTONIC), took_us;
	struct timespec until = from_now(clock, GIVES_UP_US);

	errno = 4711;
	CHECK(fgi_timedlock(&lock, FGI_DEADLINE(clock, &until)) == ETIMEDOUT, "it got a lock that is held");
	CHECK(errno == 4711);
	CHECK_SECTIONS(0);
	took_us = (fgi_now_ns(CLOCK_MONOTONIC) - began) / 1000;
	if (clock == CLOCK_MONOTONIC)
		CHECK(took_us >= GIVES_UP_US, "it gave up after %lu us", (unsigned long)took_us);
	fg_fetch_add_relaxed(&given_up, 1);
	return NULL;
}

static pthread_t start_giver(clockid_t clock)
{
	return check_thread(gives_up, (void *)(intptr_t)clock);
}

/* Nothing is left of the demand, nor of the count. Returns whether the waiter was seen to demand the lock: beside
 * others it may have had no CPU until its deadline. */
static bool head_gives_up(const struct fg_shared *page, clockid_t clock)
{
	uint32_t before = given_up;
	bool demanded = false;
	pthread_t thread;

	begin(page);
	fgi_lock(&lock);
	thread = start_giver(clock);
	while (!demanded && fg_load_acquire(&given_up) == before) {
		demanded = fg_load_relaxed(&lock.word) & DEMAND;
		sched_yield();
	}
	check_join(thread);
	CHECK(!(lock.word & DEMAND), "no waiter is left that demands it: %#x", lock.word);
	CHECK(parked(&lock) == 0 && !fgi_watchers(lock.waiters), "waiters %#x", lock.waiters);
	fgi_unlock(&lock);
	finish();
	return demanded;
}

static void test_head_gives_up(void)
{
	const struct fg_shared *const pages[] = {NULL, &quiet, &preempted};

	for (int i = 0; i < 6; i++)
		while (!head_gives_up(pages[i % 3], i / 3 ? CLOCK_REALTIME : CLOCK_MONOTONIC))
			continue;
}

static void test_parked_give_up(void)
{
	pthread_t thread[3];

	begin(NULL);
	fgi_lock(&lock);
	start_parked(0, 0, 1);
	for (int i = 0; i < 3; i++)
		thread[i] = start_giver(i % 2 ? CLOCK_REALTIME : CLOCK_MONOTONIC);
	for (int i = 0; i < 3; i++)
		check_join(thread[i]);
	fgi_unlock(&lock);
	check_join(waiters[0].thread);
	finish();
}

/* The deadline and the release come together: a waiter that gives up leaves nothing behind that another waits for. */
static void *may_give_up(void *us)
{
	struct timespec until = from_now(CLOCK_MONOTONIC, (uintptr_t)us);

	if (fgi_timedlock(&lock, FGI_DEADLINE(CLOCK_MONOTONIC, &until)) == 0)
		fgi_unlock(&lock);
	return NULL;
}

static void test_give_up_at_release(void)
{
	for (uintptr_t us = 0; us < 300; us++) {
		pthread_t hasty;

		begin(us % 3 ? NULL : &quiet);
		fgi_lock(&lock);
		hasty = check_thread(may_give_up, (void *)us);
		start(0, 0);
		fgi_nap((uint32_t)us * 900);
		fgi_unlock(&lock);
		check_join(hasty);
		check_join(waiters[0].thread);
		CHECK(is_free(lock.word) && parked(&lock) == 0, "%#x, waiters %#x", lock.word, lock.waiters);
		fgi_monitor_attach(NULL);
	}
}

/* ---- an unlock by another thread -------------------------------------------------------------------------------- */

static void *only_locks(void *unused)
{
	(void)unused;
	fgi_lock(&lock);
	return NULL;
}

static void test_foreign_unlock(void)
{
	begin(NULL);
	check_join(check_thread(only_locks, NULL));
	start(0, 0);
	start(1, 0);
	await_parked(&lock, 2);
	await_bits(&lock.word, NEEDY);
	fgi_unlock(&lock);
	CHECK_SECTIONS(0);
	check_join(waiters[0].thread);
	check_join(waiters[1].thread);
	finish();
}

int main(int argc, char **argv)
{
	check_watchdog(500);
	if (argc == 2 && strcmp(argv[1], "blind") == 0) {
		forbid(SYS_membarrier);
		CHECK(!fgi_membarrier());
	}
	test_flags_without_owner();
	test_release_keeps_flags();
	test_works_always();
	test_next_owner_keeps_flags();
	test_parks_if_told();
	test_wakes_for_idle_cpu();
	test_release_wakes_needy();
	if (argc == 1)
		test_real_time();
	test_nobody_comes();
	test_stopped_waiter();
	test_handler_waits_for_the_same();
	test_head_gives_up();
	test_parked_give_up();
	test_give_up_at_release();
	test_foreign_unlock();
	return 0;
}
