/* SPDX-License-Identifier: MIT */
/* What every C and C++ test uses: checks that end the test with a reason, a watchdog that turns a hang into a failure,
 * threads, and random numbers. */
#ifndef FG_TESTS_CHECK_H
#define FG_TESTS_CHECK_H

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition, ...)                                                                                          \
	do {                                                                                                           \
		if (!(condition)) {                                                                                    \
			fprintf(stderr, "%s:%d: %s:", __FILE__, __LINE__, #condition);                                 \
			fprintf(stderr, " " __VA_ARGS__);                                                              \
			fputc('\n', stderr);                                                                           \
			_exit(1);                                                                                      \
		}                                                                                                      \
	} while (0)

#define CHECK_IS(expression, value)                                                                                    \
	do {                                                                                                           \
		long is_ = (long)(expression), should_ = (long)(value);                                                \
		CHECK(is_ == should_, "%s is %ld, not %ld (%s)", #expression, is_, should_, #value);                   \
	} while (0)

#define ok(expression) CHECK_IS(expression, 0)

static void check_hang(int signo)
{
	static const char text[] = "hang: the watchdog ended this test\n";

	(void)signo;
	if (write(2, text, sizeof(text) - 1) < 0)
		_exit(3);
	_exit(2);
}

/* From now on the test has so many seconds. It is for hangs: on a busy machine a test of seconds takes minutes. */
static inline void check_watchdog(unsigned int seconds)
{
	signal(SIGALRM, check_hang);
	alarm(seconds);
}

static inline pthread_t check_thread(void *(*run)(void *), void *argument)
{
	pthread_t thread;
	int error = pthread_create(&thread, NULL, run, argument);

	CHECK(error == 0, "pthread_create: %s", strerror(error));
	return thread;
}

static inline void *check_join(pthread_t thread)
{
	void *result;

	CHECK(pthread_join(thread, &result) == 0);
	return result;
}

/* For a loop whose rounds wait for threads: for (int i = 0; check_goes_on(i, n); i++). On a busy machine a round takes
 * as long as its threads wait for a CPU, and that is not what the watchdog is to find. So no round begins after
 * ROUNDS_SECONDS. Loops of one thread are not nested. */
#define ROUNDS_SECONDS 8

static inline int check_goes_on(int i, int n)
{
	static __thread time_t end;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (i == 0)
		end = now.tv_sec + ROUNDS_SECONDS;
	return i < n && now.tv_sec < end;
}

/* The next of a sequence that looks random; its seed must not be 0. */
static inline uint32_t random_from(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

#endif
