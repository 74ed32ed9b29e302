/* SPDX-License-Identifier: MIT */
/* sem_wait, sem_timedwait and sem_clockwait: glibc's semaphore, of any kind. A waiter takes a token as glibc's
 * sem_trywait does. Where there is none it stays awake for a while (sync/awake.h); then it waits in glibc. So the other
 * side may run without an interposer: glibc's sem_post wakes every waiter. A semaphore of another layout is glibc's.
 *
 * A token is not a critical section: who has it need not be who gives it back. Nothing is published.
 *
 * A wait that a signal handler interrupts ends with EINTR, unless the handler was installed with SA_RESTART and the
 * wait has no deadline: the kernel restarts no futex call with a timeout. A handler that ran while the waiter is awake
 * would go unnoticed. So from its second look on, before it first yields, the waiter has signals blocked; it looks for
 * pending ones at the end, and then lets their handlers run. These are system calls that glibc's wait does not make: in
 * a sandbox that the process was put into, or that it has entered by prctl, all waiting is glibc's. So it is where the
 * thread may be cancelled asynchronously: its cleanup handlers would run with signals blocked. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>

#include "interpose/cancel.h"
#include "interpose/glibc_layout.h"
#include "interpose/real.h"
#include "runtime/cancel.h"
#include "runtime/clock.h"
#include "runtime/deadline.h"
#include "runtime/sandbox.h"
#include "sync/awake.h"

#define EXPORT __attribute__((visibility("default")))

#define LOOKS_UNBLOCKED 1 /* some 0.2 us: about as long as glibc's wait takes to reach the kernel */

struct wait {
	struct fgi_awake awake;
	sem_t *sem;
	uint32_t looks;
	uint64_t mask; /* the caller's, once there were more looks than LOOKS_UNBLOCKED */
};

/* Before the table of glibc's functions is filled, nothing is: the slow functions look again. */
static inline bool understood(void)
{
	return fg_likely(fg_load_relaxed(&fgi_real_table.sem_understood));
}

/* acquire: pairs with the release of glibc's sem_post. */
static inline bool take(sem_t *sem)
{
	uint64_t *word = (uint64_t *)(void *)sem, seen = fg_load_relaxed(word), found;

	for (; seen & FGI_GLIBC_SEM_TOKENS; seen = found) {
		found = fg_cas_acquire(word, seen, seen - 1);
		if (found == seen)
			return true;
	}
	return false;
}

/* All but those that an instruction of the waiter's own raises. */
#define OWN                                                                                                            \
	(FGI_SIGNAL(SIGSEGV) | FGI_SIGNAL(SIGBUS) | FGI_SIGNAL(SIGFPE) | FGI_SIGNAL(SIGILL) | FGI_SIGNAL(SIGTRAP) |    \
	 FGI_SIGNAL(SIGSYS))

static bool look(const void *wait)
{
	struct wait *w = (struct wait *)(uintptr_t)wait;

	if (w->looks++ == LOOKS_UNBLOCKED)
		w->mask = fgi_system_sigmask(~OWN);
	return take(w->sem);
}

/* Will a handler run, once signals are no longer blocked, after which the wait does not go on? */
static bool is_interrupted(uint64_t mask, bool timed)
{
	uint64_t waiting = fgi_system_sigpending() & ~mask;
	struct fgi_disposition d = {0};

	for (int signo = 1; waiting; signo++, waiting >>= 1)
		if ((waiting & 1) && fgi_system_disposition(signo, &d) && d.handler != (uint64_t)SIG_DFL &&
		    d.handler != (uint64_t)SIG_IGN && (timed || !(d.flags & SA_RESTART)))
			return true;
	return false;
}

static bool in_sandbox(void)
{
	return fg_load_relaxed(&fgi_sandboxed) || fg_load_relaxed(&fgi_enters_sandbox);
}

/* Returns 0 with a token; EINTR; EAGAIN: glibc is to wait. */
static int wait_awake(struct wait *w, sem_t *sem, struct fgi_deadline until)
{
	bool known = fgi_real()->sem_understood;
	int result = 0;

	if (known && take(sem))
		return 0;
	w->sem = sem;
	w->looks = 0;
	fgi_awake_begin(&w->awake, sem);
	if (known && !fgi_async && !in_sandbox() && fgi_awake_stay(&w->awake, look, w, until))
		fgi_awake_end(&w->awake, false, 0);
	else
		result = EAGAIN;
	if (w->looks <= LOOKS_UNBLOCKED)
		return result;
	if (result && is_interrupted(w->mask, until.time != NULL))
		result = EINTR;
	(void)fgi_system_sigmask(w->mask);
	return result;
}

/* glibc has waited. When the token came is not known: at the latest now. */
static int after_sleep(const struct wait *w, int result)
{
	fgi_awake_end(&w->awake, true, result == 0 ? fgi_now_ns(CLOCK_MONOTONIC) : 0);
	return result;
}

static int ended(int error)
{
	if (error)
		errno = error;
	return error ? -1 : 0;
}

__attribute__((noinline)) static int wait_slow(sem_t *sem)
{
	struct wait w;
	int error = wait_awake(&w, sem, FGI_NEVER);

	return error == EAGAIN ? after_sleep(&w, fgi_real()->sem_wait(sem)) : ended(error);
}

/* pthread_testcancel, without a call until our pthread_cancel has been called. relaxed: a thread that must find itself
 * cancelled has synchronised with the one that did it. Code that finds glibc's pthread_cancel before ours, such as a
 * plugin with RTLD_DEEPBIND, cancels unseen, so each 64th call of a thread asks glibc in any case. */
static inline void test_cancel(void)
{
	static __thread uint8_t unasked __attribute__((tls_model("initial-exec")));

	unasked = (uint8_t)(unasked + (UINT8_MAX + 1) / 64);
	if (fg_unlikely(unasked == 0) || fg_unlikely(fg_load_relaxed(&fgi_cancels)))
		pthread_testcancel();
}

/* Like glibc's, sem_wait and sem_timedwait are cancellation points also where there is a token, and sem_clockwait is
 * not. */
EXPORT int sem_wait(sem_t *sem)
{
	test_cancel();
	return understood() && fg_likely(take(sem)) ? 0 : wait_slow(sem);
}

EXPORT int sem_timedwait(sem_t *restrict sem, const struct timespec *restrict abs)
{
	struct wait w;
	int error;

	if (!fgi_is_time(abs))
		return fgi_real()->sem_timedwait(sem, abs);
	test_cancel();
	error = wait_awake(&w, sem, FGI_DEADLINE(CLOCK_REALTIME, abs));
	return error == EAGAIN ? after_sleep(&w, fgi_real()->sem_timedwait(sem, abs)) : ended(error);
}

EXPORT int sem_clockwait(sem_t *restrict sem, clockid_t clock, const struct timespec *restrict abs)
{
	struct fgi_deadline until = FGI_DEADLINE(clock, abs);
	struct wait w;
	int error;

	if (!fgi_is_deadline(until))
		return fgi_real()->sem_clockwait(sem, clock, abs);
	error = wait_awake(&w, sem, until);
	return error == EAGAIN ? after_sleep(&w, fgi_real()->sem_clockwait(sem, clock, abs)) : ended(error);
}
