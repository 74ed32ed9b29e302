/* SPDX-License-Identifier: MIT */
#include "interpose/bridge.h"

#include <stdint.h>

#include "interpose/atfork.h"
#include "interpose/mutex.h"
#include "interpose/real.h"

/* Only glibc's functions touch it. One for the whole process is enough: it is held briefly, in a rare case. It is of a
 * kind that a second interposer behind this one passes on, too: that may be where the functions of condition variables
 * are found (interpose/real.c), but not those of mutexes. */
#define BRIDGE ((pthread_mutex_t){.__data.__kind = FGI_GLIBC_SHARED})
static pthread_mutex_t bridge = BRIDGE;
static uint32_t waiters;

static void leave(void)
{
	fg_fetch_sub_release(&waiters, 1);
	fgi_real()->mutex_unlock(&bridge);
}

static void cancelled(void *mutex)
{
	leave(); /* glibc has relocked the bridge */
	fgi_mutex_lock(mutex);
}

static int wait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *abs)
{
	int result;

	pthread_cleanup_push(cancelled, mutex);
	if (!abs)
		result = fgi_real()->cond_wait(cond, &bridge);
	else if (clock == FGI_OWN_CLOCK)
		result = fgi_real()->cond_timedwait(cond, &bridge, abs);
	else
		result = fgi_real()->cond_clockwait(cond, &bridge, clock, abs);
	pthread_cleanup_pop(0);
	return result;
}

int fgi_bridge_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *abs)
{
	int result, error;

	fgi_real()->mutex_lock(&bridge);
	fg_fetch_add_relaxed(&waiters, 1);
	error = fgi_mutex_unlock(mutex);
	if (error) {
		leave();
		return error;
	}
	result = wait(cond, mutex, clock, abs);
	leave();
	error = fgi_mutex_lock(mutex);
	return error ? error : result;
}

void fgi_bridge_pass(void)
{
	/* relaxed: the waiter counted itself before it unlocked the mutex that the signaller has held since */
	if (!fg_load_relaxed(&waiters))
		return;
	fgi_real()->mutex_lock(&bridge);
	fgi_real()->mutex_unlock(&bridge);
}

/* In the child: waiters and a holder of the bridge, if any, stayed in the parent. */
void fgi_bridge_after_fork(void)
{
	bridge = BRIDGE;
	waiters = 0;
}
