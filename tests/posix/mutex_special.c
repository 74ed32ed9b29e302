/* SPDX-License-Identifier: MIT */
/* Robust, priority-inheriting, priority-protected and process-shared mutexes keep what they promise. */
#include <sched.h>
#include <sys/mman.h>

#include "tests/posix/posix.h"

enum { LOWEST = 1, CEILING = 5 }; /* of SCHED_FIFO's priorities */
static const struct timespec past = {.tv_sec = 1};

static void init(pthread_mutex_t *m, int kind, int robust, int protocol, int shared)
{
	pthread_mutexattr_t attr;

	ok(pthread_mutexattr_init(&attr));
	ok(pthread_mutexattr_settype(&attr, kind));
	ok(pthread_mutexattr_setrobust(&attr, robust));
	ok(pthread_mutexattr_setprotocol(&attr, protocol));
	ok(pthread_mutexattr_setpshared(&attr, shared));
	if (protocol == PTHREAD_PRIO_PROTECT)
		ok(pthread_mutexattr_setprioceiling(&attr, CEILING));
	ok(pthread_mutex_init(m, &attr));
	ok(pthread_mutexattr_destroy(&attr));
}

static void *die_holding(void *m)
{
	return (void *)(long)pthread_mutex_lock(m);
}

static int lock_by(int how, pthread_mutex_t *m)
{
	switch (how) {
	case 0:
		return pthread_mutex_lock(m);
	case 1:
		return pthread_mutex_trylock(m);
	case 2:
		return pthread_mutex_timedlock(m, &past);
	default:
		return pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &past);
	}
}

static void robust(int protocol)
{
	pthread_mutex_t m;

	for (int how = 0; how < 4; how++) {
		init(&m, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ROBUST, protocol, PTHREAD_PROCESS_PRIVATE);
		CHECK_IS(pthread_mutex_consistent(&m), EINVAL);
		ok(elsewhere(die_holding, &m));
		CHECK_IS(lock_by(how, &m), EOWNERDEAD);
		CHECK_IS(pthread_mutex_lock(&m), EDEADLK);
		ok(pthread_mutex_consistent(&m));
		ok(pthread_mutex_unlock(&m));
		ok(elsewhere(die_holding, &m));
		CHECK_IS(lock_by(how, &m), EOWNERDEAD);
		ok(pthread_mutex_unlock(&m)); /* without having made it consistent */
		CHECK_IS(lock_by(0, &m), ENOTRECOVERABLE);
		CHECK_IS(lock_by(2, &m), ENOTRECOVERABLE);
		CHECK_IS(lock_by(3, &m), ENOTRECOVERABLE);
		CHECK_IS(lock_by(1, &m), ENOTRECOVERABLE); /* last: glibc 2.36 then takes it for locked */
		ok(pthread_mutex_destroy(&m));
	}
}

static void inherit(void)
{
	pthread_mutex_t m;

	init(&m, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_INHERIT, PTHREAD_PROCESS_PRIVATE);
	ok(pthread_mutex_lock(&m));
	CHECK_IS(m.__data.__lock, gettid()); /* what the kernel needs to find the holder: glibc has locked it */
	CHECK_IS(pthread_mutex_lock(&m), EDEADLK);
	CHECK_IS(elsewhere(try_it, &m), EBUSY);
	CHECK_IS(elsewhere(unlock_it, &m), EPERM);
	ok(pthread_mutex_unlock(&m));
	ok(elsewhere(try_it, &m));
	ok(pthread_mutex_destroy(&m));
	CHECK_IS(pthread_mutex_lock(&m), EINVAL);
}

static int priority(void)
{
	struct sched_param now;

	ok(sched_getparam(0, &now));
	return now.sched_priority;
}

/* In a real-time thread: glibc raises the priority of no other. */
static void *protect(void *arg)
{
	const struct sched_param low = {.sched_priority = LOWEST};
	pthread_mutex_t m;
	int ceiling;

	init(&m, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_PROTECT, PTHREAD_PROCESS_PRIVATE);
	ok(pthread_mutex_getprioceiling(&m, &ceiling));
	CHECK_IS(ceiling, CEILING);
	if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &low) == EPERM)
		return arg; /* without CAP_SYS_NICE that is all there is to see */
	ok(pthread_mutex_lock(&m));
	CHECK_IS(priority(), CEILING);
	CHECK_IS(pthread_mutex_trylock(&m), EBUSY);
	ok(pthread_mutex_unlock(&m));
	CHECK_IS(priority(), LOWEST);
	ok(pthread_mutex_setprioceiling(&m, CEILING + 1, &ceiling));
	CHECK_IS(ceiling, CEILING);
	ok(pthread_mutex_timedlock(&m, &past));
	CHECK_IS(priority(), CEILING + 1);
	ok(pthread_mutex_unlock(&m));
	ok(pthread_mutex_destroy(&m));
	CHECK_IS(pthread_mutex_lock(&m), EINVAL);
	return arg;
}

struct across {
	pthread_mutex_t m;
	long counter;
	int counted;
};

static void count(struct across *s)
{
	for (int i = 0; i < 20000; i++) {
		ok(pthread_mutex_lock(&s->m));
		s->counter++;
		ok(pthread_mutex_unlock(&s->m));
	}
}

static void shared(int kind, int robust)
{
	struct across *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t child;

	CHECK(s != MAP_FAILED);
	init(&s->m, kind, robust, PTHREAD_PRIO_NONE, PTHREAD_PROCESS_SHARED);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		alarm(WATCHDOG_SECONDS);
		count(s);
		await(&s->counted, 1);
		ok(pthread_mutex_lock(&s->m));
		if (robust == PTHREAD_MUTEX_STALLED)
			ok(pthread_mutex_unlock(&s->m));
		_exit(0); /* a robust one dies with its holder */
	}
	count(s);
	tell(&s->counted, 1);
	reap(child);
	CHECK_IS(s->counter, 40000);
	CHECK_IS(pthread_mutex_lock(&s->m), robust == PTHREAD_MUTEX_ROBUST ? EOWNERDEAD : 0);
	munmap(s, sizeof(*s));
}

int main(void)
{
	pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;

	ok(pthread_mutex_lock(&m));
	CHECK_IS(m.__data.__lock == 0, ours()); /* and ours are not glibc's */
	robust(PTHREAD_PRIO_NONE);
	robust(PTHREAD_PRIO_INHERIT);
	inherit();
	elsewhere(protect, NULL);
	shared(PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED);
	shared(PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_STALLED);
	shared(PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST);
	return 0;
}
