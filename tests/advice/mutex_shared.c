/* SPDX-License-Identifier: MIT */
/* The mutex for shared memory, between threads and between processes: exclusion, time, wrong use, and processes that
 * are killed while they hold it, wait for it, or sleep at it.
 *
 *   mutex_shared [clockless [SECONDS]]   clockless: no process that waits is killed, so no sleep needs a look. With
 *                                        SECONDS it begins anew until it fails: each time it has so many, then it hangs
 */
#include <errno.h>
#include <flexguard/mutex_shared.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "runtime/thread.h"
#include "tests/check.h"

#define PROCESSES 4
#define TIMES 20000

static struct shared {
	struct fg_mutex_shared m;
	uint64_t count, copy;
	uint64_t ready, stop;
	pid_t holder;
} * s;

static uint64_t value(const uint64_t *of)
{
	return __atomic_load_n(of, __ATOMIC_ACQUIRE);
}

/* A child that dies with this process. */
static unsigned int seconds = 500;

static pid_t start(void (*play)(int), int argument)
{
	pid_t child = fork();

	CHECK(child >= 0, "%m");
	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	check_watchdog(seconds);
	play(argument);
	_exit(0);
}

static void end_well(pid_t child)
{
	int status;

	CHECK(waitpid(child, &status, 0) == child);
	CHECK_IS(status, 0);
}

static void kill_it(pid_t child)
{
	CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
}

static struct timespec in_ms(clockid_t clock, long ms)
{
	struct timespec t;

	clock_gettime(clock, &t);
	t.tv_nsec += ms * 1000000;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

/* Two words that only the owner changes, one after the other. */
static void section(void)
{
	CHECK(s->count == s->copy, "%lu and %lu", (unsigned long)s->count, (unsigned long)s->copy);
	__atomic_store_n(&s->count, s->count + 1, __ATOMIC_RELAXED);
	if (s->count % 512 == 0)
		sched_yield();
	if (s->count % 4096 == 0) {
		const struct timespec long_enough = {.tv_nsec = 5000000};

		nanosleep(&long_enough, NULL); /* the others fall asleep */
	}
	__atomic_store_n(&s->copy, s->copy + 1, __ATOMIC_RELAXED);
}

static void take_somehow(int i)
{
	const struct timespec soon = in_ms(i % 2 ? CLOCK_REALTIME : CLOCK_MONOTONIC, i % 64 == 2 ? 1 : 0);

	if (i % 16 == 1)
		while (fg_mutex_shared_trylock(&s->m))
			sched_yield();
	else if (i % 16 < 4)
		while (fg_mutex_shared_timedlock(&s->m, i % 2 ? CLOCK_REALTIME : CLOCK_MONOTONIC, &soon))
			sched_yield();
	else
		fg_mutex_shared_lock(&s->m);
}

static void add(int times)
{
	for (int i = 0; i < times; i++) {
		take_somehow(i);
		section();
		ok(fg_mutex_shared_unlock(&s->m));
	}
}

static void *add_in_a_thread(void *unused)
{
	add(TIMES);
	return unused;
}

static void excludes(void)
{
	pid_t children[PROCESSES];
	pthread_t thread;

	s->count = s->copy = 0;
	for (int i = 0; i < PROCESSES; i++)
		children[i] = start(add, TIMES);
	thread = check_thread(add_in_a_thread, NULL);
	add(TIMES);
	check_join(thread);
	for (int i = 0; i < PROCESSES; i++)
		end_well(children[i]);
	CHECK_IS(s->count, (PROCESSES + 2) * TIMES);
	CHECK(s->m.opaque == 0);
}

static void hold(int unused)
{
	(void)unused;
	fg_mutex_shared_lock(&s->m);
	__atomic_store_n(&s->ready, 1, __ATOMIC_RELEASE);
	for (;;)
		pause();
}

static pid_t start_holder(void)
{
	pid_t holder;

	s->ready = 0;
	holder = start(hold, 0);
	while (!value(&s->ready))
		sched_yield();
	return holder;
}

static void unlock_of_another(int unused)
{
	(void)unused;
	CHECK_IS(fg_mutex_shared_unlock(&s->m), EPERM);
}

static void refuses_wrong_use(void)
{
	const struct timespec past = {1, 0}, wrong = {0, 1000000000};
	uint64_t word;

	CHECK_IS(fg_mutex_shared_unlock(&s->m), EPERM);
	CHECK_IS(fg_mutex_shared_recover(&s->m), EBUSY);
	CHECK_IS(fg_mutex_shared_timedlock(&s->m, CLOCK_BOOTTIME, &past), EINVAL);
	CHECK_IS(fg_mutex_shared_timedlock(&s->m, CLOCK_MONOTONIC, &wrong), EINVAL);
	ok(fg_mutex_shared_timedlock(&s->m, CLOCK_REALTIME, &past));
	CHECK_IS(fg_mutex_shared_trylock(&s->m), EBUSY);
	CHECK_IS(fg_mutex_shared_timedlock(&s->m, CLOCK_MONOTONIC, &past), ETIMEDOUT);
	CHECK_IS(fg_mutex_shared_recover(&s->m), EBUSY);
	word = s->m.opaque;
	end_well(start(unlock_of_another, 0)); /* the child of a fork has none of the parent's */
	CHECK(s->m.opaque == word);
	ok(fg_mutex_shared_unlock(&s->m));
}

static void waits_for_its_time(void)
{
	pid_t holder = start_holder();

	for (int i = 0; i < 4; i++) {
		clockid_t clock = i % 2 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
		struct timespec until = in_ms(clock, 25), now;

		CHECK_IS(fg_mutex_shared_timedlock(&s->m, clock, &until), ETIMEDOUT);
		clock_gettime(clock, &now);
		CHECK(now.tv_sec > until.tv_sec || (now.tv_sec == until.tv_sec && now.tv_nsec >= until.tv_nsec));
	}
	CHECK_IS(fg_mutex_shared_recover(&s->m), EBUSY);
	kill_it(holder);
	CHECK_IS(fg_mutex_shared_trylock(&s->m), EBUSY);
	ok(fg_mutex_shared_recover(&s->m));
	CHECK_IS(fg_mutex_shared_recover(&s->m), EBUSY);
	ok(fg_mutex_shared_unlock(&s->m));
	CHECK(s->m.opaque == 0);
}

static pid_t bare_fork(int by_system_call)
{
	return by_system_call ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : _Fork();
}

static void *take_and_release(void *unused)
{
	fg_mutex_shared_lock(&s->m);
	ok(fg_mutex_shared_unlock(&s->m));
	return unused;
}

/* Ends before its child, which takes the mutex first in a thread, then for good. */
static void leave_holder(int by_system_call)
{
	pid_t child;

	take_and_release(NULL);
	child = bare_fork(by_system_call);
	CHECK(child >= 0, "%m");
	if (child) {
		s->holder = child;
		return;
	}
	check_watchdog(seconds);
	if (!by_system_call) /* glibc gives threads only to a process that it knows */
		check_join(check_thread(take_and_release, NULL));
	hold(0);
}

static uint32_t own; /* the word of a lock of this process */

static void release_own(void)
{
	fgi_intent_restore(&own);
	fg_store_relaxed(&own, 0);
	fgi_intent_clear(&own);
}

/* A fork without handlers: the child has a handle of its own, and nothing of its parent's but its memory. */
static void tells_bare_children(int by_system_call)
{
	pid_t child;

	fg_mutex_shared_lock(&s->m);
	fgi_intent_set(&own);
	fg_store_relaxed(&own, fgi_self());
	child = bare_fork(by_system_call);
	if (child == 0) {
		unlock_of_another(0);
		CHECK_IS(fgi_sections(), 2);
		release_own();
		CHECK_IS(fgi_sections(), 1);
		_exit(0);
	}
	end_well(child);
	release_own();
	ok(fg_mutex_shared_unlock(&s->m));

	s->ready = 0;
	end_well(start(leave_holder, by_system_call));
	while (!value(&s->ready))
		sched_yield();
	CHECK_IS(fg_mutex_shared_recover(&s->m), EBUSY);
	kill_it(s->holder);
	ok(fg_mutex_shared_recover(&s->m));
	ok(fg_mutex_shared_unlock(&s->m));
}

/* Many waiters of an owner that keeps the mutex leave the CPUs to others: each looks less and less often. */
static void looks_seldom(clockid_t clock)
{
	pid_t holder = start_holder();
	struct timespec until = in_ms(clock, 1000);
	uint64_t parks = fg_thread.parks;

	CHECK_IS(fg_mutex_shared_timedlock(&s->m, clock, &until), ETIMEDOUT);
	CHECK(fg_thread.parks - parks <= 16, "slept %lu times", (unsigned long)(fg_thread.parks - parks));
	kill_it(holder);
	ok(fg_mutex_shared_recover(&s->m));
	ok(fg_mutex_shared_unlock(&s->m));
}

static void wait_for_it(int unused)
{
	(void)unused;
	fg_mutex_shared_lock(&s->m);
	ok(fg_mutex_shared_unlock(&s->m));
}

/* Sleepers behind an owner that dies: the one who recovers wakes them. */
static void wakes_who_slept_behind_the_dead(void)
{
	pid_t holder = start_holder(), waiters[PROCESSES];

	for (int i = 0; i < PROCESSES; i++)
		waiters[i] = start(wait_for_it, 0);
	while (!(value(&s->m.opaque) & 0x80000000u)) /* one is about to sleep */
		sched_yield();
	kill_it(holder);
	ok(fg_mutex_shared_recover(&s->m));
	ok(fg_mutex_shared_unlock(&s->m));
	for (int i = 0; i < PROCESSES; i++)
		end_well(waiters[i]);
}

static struct timespec deadline;

static void *wait_until_then(void *unused)
{
	if (fg_mutex_shared_timedlock(&s->m, CLOCK_MONOTONIC, &deadline) == 0)
		ok(fg_mutex_shared_unlock(&s->m));
	return unused;
}

static void *wait_in_a_thread(void *unused)
{
	wait_for_it(0);
	return unused;
}

/* How many us after the deadline it is. */
static long late_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - deadline.tv_sec) * 1000000 + (now.tv_nsec - deadline.tv_nsec) / 1000;
}

/* A waiter that is woken as its time ends, and finds the mutex taken again, leaves behind that another one sleeps. */
static void passes_the_flag_on(void)
{
	const struct timespec moment = {.tv_nsec = 2000000};
	pthread_t timed, waiter;

	for (int i = 0; check_goes_on(i, 200); i++) {
		fg_mutex_shared_lock(&s->m);
		deadline = in_ms(CLOCK_MONOTONIC, 8);
		timed = check_thread(wait_until_then, NULL);
		while (!(value(&s->m.opaque) & 0x80000000u) && late_us() < 0)
			sched_yield();
		waiter = check_thread(wait_in_a_thread, NULL);
		nanosleep(&moment, NULL);
		while (late_us() < i % 60)
			;
		ok(fg_mutex_shared_unlock(&s->m));
		fg_mutex_shared_lock(&s->m);
		check_join(timed);
		ok(fg_mutex_shared_unlock(&s->m));
		check_join(waiter);
	}
}

static void work_until_killed(int unused)
{
	(void)unused;
	for (int i = 0;; i++) {
		take_somehow(i);
		s->count++;
		ok(fg_mutex_shared_unlock(&s->m));
	}
}

/* Whatever a process does when it is killed, the others go on, after a recovery if it was the owner. */
static void survives_the_dead(void)
{
	pid_t workers[PROCESSES];
	uint32_t seed = 88172645;
	int recovered = 0;

	for (int i = 0; i < PROCESSES; i++)
		workers[i] = start(work_until_killed, 0);
	for (int i = 0; check_goes_on(i, 300); i++) {
		struct timespec pause = {.tv_nsec = random_from(&seed) % 1000000}, until;
		int which = (int)(random_from(&seed) % PROCESSES);

		nanosleep(&pause, NULL);
		kill_it(workers[which]);
		until = in_ms(CLOCK_MONOTONIC, 2);
		while (fg_mutex_shared_timedlock(&s->m, CLOCK_MONOTONIC, &until)) {
			if (fg_mutex_shared_recover(&s->m) == 0) {
				recovered++;
				break;
			}
			until = in_ms(CLOCK_MONOTONIC, 2);
		}
		ok(fg_mutex_shared_unlock(&s->m));
		workers[which] = start(work_until_killed, 0);
	}
	for (int i = 0; i < PROCESSES; i++)
		kill_it(workers[i]);
	printf("recovered from %d dead owners\n", recovered);
	while (fg_mutex_shared_trylock(&s->m) && fg_mutex_shared_recover(&s->m))
		;
	ok(fg_mutex_shared_unlock(&s->m));
}

/* The memory may go as soon as the thread that unlocked has left; and a child may lack it. */
static void unlocks_before_memory_goes(void)
{
	struct fg_mutex_shared *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(m != MAP_FAILED);
	fg_mutex_shared_lock(m);
	ok(fg_mutex_shared_unlock(m));
	ok(munmap(m, 4096));
}

int main(int argc, char **argv)
{
	bool clockless = argc > 1 && strcmp(argv[1], "clockless") == 0, until_it_fails = argc > 2;

	if (clockless)
		seconds = until_it_fails ? (unsigned int)atoi(argv[2]) : 500;
	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(s != MAP_FAILED);
	for (;;) {
		check_watchdog(seconds);
		refuses_wrong_use();
		excludes();
		passes_the_flag_on();
		wakes_who_slept_behind_the_dead();
		if (!until_it_fails)
			break;
	}
	if (clockless)
		return 0;
	ok(prctl(PR_SET_CHILD_SUBREAPER, 1));
	tells_bare_children(0);
	tells_bare_children(1);
	waits_for_its_time();
	looks_seldom(CLOCK_MONOTONIC);
	looks_seldom(CLOCK_REALTIME);
	survives_the_dead();
	unlocks_before_memory_goes();
	return 0;
}
