/* SPDX-License-Identifier: MIT */
/* Barriers (sync/barrier.h): the last thread of a phase that comes late, and destroy. The test plays the others. */
#include <errno.h>

#include "sync/barrier.h"
#include "tests/check.h"

/* The phases behind it have ended meanwhile, and this one with them: it does not go back. */
static void a_late_end(void)
{
	struct fgi_barrier b = {.count = 1, .phase = 4};

	CHECK(fgi_barrier_wait(&b), "it is the last of its phase");
	CHECK_IS(b.phase, 4);
}

/* The count of phases begins anew after 2^31 of them. */
static void a_long_life(void)
{
	struct fgi_barrier b = {.count = 1, .phase = UINT32_MAX - 1, .arrived = INT32_MAX, .left = INT32_MAX};

	for (uint32_t i = 0; i < 3; i++) {
		CHECK(fgi_barrier_wait(&b), "it is the last of its phase");
		CHECK_IS(b.phase, 2 * i);
	}
	CHECK_IS(fgi_barrier_destroy(&b), 0);
}

/* Undefined by POSIX, and glibc waits for the thread. */
static void a_thread_waits(void)
{
	struct fgi_barrier b = {.count = 2, .arrived = 1};

	CHECK_IS(fgi_barrier_destroy(&b), EBUSY);
}

int main(void)
{
	check_watchdog(60);
	a_thread_waits();
	a_late_end();
	a_long_life();
	return 0;
}
