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

/* From now on the test has so many seconds. */
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

/* The next of a sequence that looks random; its seed must not be 0. */
static inline uint32_t random_from(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

#endif
