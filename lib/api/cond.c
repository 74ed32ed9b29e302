/* SPDX-License-Identifier: MIT */
/* The condition variable of the C API: sync/cond.h with the API's mutexes. */
#include "flexguard/cond.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>

#include "sync/cond.h"

_Static_assert(sizeof(struct fgi_cond) <= sizeof(struct fg_cond), "fg_cond is the condition variable");
_Static_assert(_Alignof(struct fgi_cond) <= _Alignof(struct fg_cond), "fg_cond is the condition variable");

static struct fgi_cond *of(struct fg_cond *c)
{
	return (struct fgi_cond *)(void *)c->opaque;
}

static int lock(void *mutex)
{
	fg_mutex_lock(mutex);
	return 0;
}

static int unlock(void *mutex)
{
	fg_mutex_unlock(mutex);
	return 0;
}

static const struct fgi_cond_mutexes mutexes = {.unlock = unlock, .lock = lock};

void fg_cond_wait(struct fg_cond *c, struct fg_mutex *m)
{
	(void)fgi_cond_wait(of(c), m, &mutexes, FGI_NEVER);
}

int fg_cond_timedwait(struct fg_cond *c, struct fg_mutex *m, clockid_t clock, const struct timespec *abs)
{
	struct fgi_deadline until = FGI_DEADLINE(clock, abs);

	return fgi_is_deadline(until) ? fgi_cond_wait(of(c), m, &mutexes, until) : EINVAL;
}

void fg_cond_signal(struct fg_cond *c)
{
	fgi_cond_signal(of(c));
}

void fg_cond_broadcast(struct fg_cond *c)
{
	fgi_cond_broadcast(of(c));
}

__attribute__((constructor)) static void cond_start(void)
{
	(void)pthread_atfork(NULL, NULL, fgi_parked_after_fork);
}
