/* SPDX-License-Identifier: MIT */
#include "tests/posix/guarded/guarded.h"
#include "tests/posix/posix.h"

enum guard guard;
pthread_mutex_t guarded = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
int handled;

static void prepare(void)
{
	if (guard != IGNORE)
		ok(pthread_mutex_lock(&guarded));
}

static void parent(void)
{
	if (guard != IGNORE)
		ok(pthread_mutex_unlock(&guarded));
}

static void use(void)
{
	ok(pthread_mutex_lock(&guarded));
	ok(pthread_mutex_unlock(&guarded));
}

static void wait_in_vain(void)
{
	struct timespec soon = from_now(CLOCK_MONOTONIC, 1000000);

	CHECK_IS(pthread_cond_clockwait(&changed, &guarded, CLOCK_MONOTONIC, &soon), ETIMEDOUT);
}

static void child(void)
{
	alarm(WATCHDOG_SECONDS / 4);
	switch (guard) {
	case IGNORE:
		break;
	case UNLOCK_TWICE:
		ok(pthread_mutex_unlock(&guarded));
		use();
		break;
	case RENEW:
		ok(pthread_mutex_init(&guarded, NULL));
		use();
		break;
	case WAIT:
		wait_in_vain();
		ok(pthread_mutex_unlock(&guarded));
		break;
	case UNLOCK:
		ok(pthread_mutex_unlock(&guarded));
	}
	handled++;
}

__attribute__((constructor)) static void guarded_start(void)
{
	ok(pthread_atfork(prepare, parent, child));
}
