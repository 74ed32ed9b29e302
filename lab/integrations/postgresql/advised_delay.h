/* SPDX-License-Identifier: MIT */
/* What a backend does that waits for a spinlock, the lock of a list of LWLock waiters or a buffer's header.
 * storage/lmgr/s_lock.c includes this; perform_spin_delay asks it after its spin hint. */
#ifndef FG_ADVISED_DELAY_H
#define FG_ADVISED_DELAY_H

#include <pthread.h>

/* Looks by advice. Those after them are PostgreSQL's own, which notice a lock that is stuck. */
#define FG_LOOKS_ADVISED 20000

/* A backend with a handle: its waiters learn which CPU it waits for. */
static void fg_name_backend(void)
{
	(void)fg_thread_handle();
}

__attribute__((constructor)) static void fg_start_advice(void)
{
	if (fg_advice_start())
		(void)pthread_atfork(NULL, NULL, fg_name_backend);
}

/* True: the delay is over. `cur_delay` is 0 as long as PostgreSQL has not slept. */
static bool fg_advised_delay(SpinDelayStatus *status)
{
	struct fg_wait w = {0};
	struct fg_advice a;
	struct timespec pause = {0, 0};

	if (status->spins >= FG_LOOKS_ADVISED || status->cur_delay != 0)
		return false;
	w.looks = (uint32_t)status->spins;
	a = fg_wait_advice(&w);
	if (a.reason == FG_WHY_UNMONITORED)
		return false;
	status->spins++;
	if (a.action == FG_WAIT_YIELD)
		(void)sched_yield();
	pause.tv_nsec = (long)a.sleep_ns;
	if (a.action == FG_WAIT_SLEEP)
		(void)nanosleep(&pause, NULL);
	return true;
}

#endif
