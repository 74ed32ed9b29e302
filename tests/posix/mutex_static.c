/* SPDX-License-Identifier: MIT */
/* Statically initialised mutexes of every kind work as their kind, though no function has seen them before. */
#include "tests/posix/posix.h"

static pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t errorcheck = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_mutex_t adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t zeroed; /* not promised by POSIX, used by many */

static void plain(pthread_mutex_t *m)
{
	ok(pthread_mutex_lock(m));
	CHECK_IS(pthread_mutex_trylock(m), EBUSY);
	CHECK_IS(elsewhere(try_it, m), EBUSY);
	ok(pthread_mutex_unlock(m));
	ok(elsewhere(try_it, m));
	ok(pthread_mutex_destroy(m));
	CHECK_IS(pthread_mutex_lock(m), EINVAL);
}

int main(void)
{
	plain(&normal);
	plain(&adaptive);
	plain(&zeroed);

	ok(pthread_mutex_lock(&recursive));
	ok(pthread_mutex_lock(&recursive));
	ok(pthread_mutex_trylock(&recursive));
	CHECK_IS(elsewhere(unlock_it, &recursive), EPERM);
	ok(pthread_mutex_unlock(&recursive));
	ok(pthread_mutex_unlock(&recursive));
	CHECK_IS(elsewhere(try_it, &recursive), EBUSY);
	ok(pthread_mutex_unlock(&recursive));
	ok(elsewhere(try_it, &recursive));
	CHECK_IS(pthread_mutex_unlock(&recursive), EPERM);

	CHECK_IS(pthread_mutex_unlock(&errorcheck), EPERM);
	ok(pthread_mutex_lock(&errorcheck));
	CHECK_IS(pthread_mutex_lock(&errorcheck), EDEADLK);
	CHECK_IS(pthread_mutex_trylock(&errorcheck), EBUSY);
	CHECK_IS(elsewhere(unlock_it, &errorcheck), EPERM);
	ok(pthread_mutex_unlock(&errorcheck));
	return 0;
}
