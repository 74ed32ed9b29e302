/* SPDX-License-Identifier: MIT */
/* A signal handler interrupts a wait at a semaphore: EINTR, whether the waiter sleeps or is awake; with a deadline also
 * if the handler has SA_RESTART, which restarts no futex call with a timeout. A tracer sends the signal as the waiter
 * is about to yield for the first time, for the second time, ..., or to sleep. */
#include <semaphore.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/user.h>

#include "tests/posix/posix.h"

#define YIELDS 5
#define LAST_SECONDS 2 /* then an unnoticed signal counts as lost */

enum how { WAIT, TIMEDWAIT, CLOCKWAIT, WAYS };
enum { INTERRUPTED = 0, LOST = 7 }; /* the exit status of the waiter */

static volatile sig_atomic_t handled, is_late;

static void handle(int number)
{
	(void)number;
	handled = 1;
}

static void late(int number)
{
	(void)number;
	is_late = 1;
}

static int wait_so(sem_t *sem, enum how how)
{
	struct timespec abs = from_now(how == TIMEDWAIT ? CLOCK_REALTIME : CLOCK_MONOTONIC, LONG_WAIT);

	return how == WAIT        ? sem_wait(sem)
	       : how == TIMEDWAIT ? sem_timedwait(sem, &abs)
				  : sem_clockwait(sem, CLOCK_MONOTONIC, &abs);
}

static int be_the_waiter(enum how how, int flags)
{
	const struct sigaction signals = {.sa_handler = handle, .sa_flags = flags}, alarms = {.sa_handler = late};
	const struct itimerval last = {{0, 100000}, {LAST_SECONDS, 0}};
	sem_t sem;

	ok(sigaction(SIGUSR1, &signals, NULL));
	ok(sigaction(SIGALRM, &alarms, NULL));
	ok(sem_init(&sem, 0, 0));
	ok(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
	ok(raise(SIGSTOP));
	ok(setitimer(ITIMER_REAL, &last, NULL));
	CHECK_IS(wait_so(&sem, how), -1);
	CHECK_IS(errno, EINTR);
	CHECK(handled, "no signal came");
	return is_late ? LOST : INTERRUPTED;
}

/* Is it at a yield, or about to sleep? */
static bool is_waiting(pid_t pid, bool *sleeps)
{
	struct user_regs_struct registers;

	ok(ptrace(PTRACE_GETREGS, pid, NULL, &registers));
	*sleeps = registers.orig_rax == SYS_futex;
	return *sleeps || registers.orig_rax == SYS_sched_yield;
}

/* Sends the signal at the nth yield, or as the waiter goes to sleep. Returns how it ended; *slept: it had fewer
 * yields. */
static int interrupted_at(int n, enum how how, int flags, bool *slept)
{
	int status, stops = 0, pass_on = 0;
	bool enters = false, sent = false;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0)
		_exit(be_the_waiter(how, flags));
	CHECK_IS(waitpid(pid, &status, 0), pid);
	CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP, "%x", status);
	ok(ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL));
	for (;;) {
		ok(ptrace(PTRACE_SYSCALL, pid, NULL, (void *)(long)pass_on));
		CHECK_IS(waitpid(pid, &status, 0), pid);
		if (!WIFSTOPPED(status))
			break;
		pass_on = WSTOPSIG(status) == (SIGTRAP | 0x80) ? 0 : WSTOPSIG(status);
		if (pass_on)
			continue;
		enters = !enters;
		if (!enters || sent || !is_waiting(pid, slept))
			continue;
		sent = ++stops == n || *slept;
		if (sent)
			ok(kill(pid, SIGUSR1));
	}
	CHECK(WIFEXITED(status), "%x", status);
	return WEXITSTATUS(status);
}

static void everywhere(enum how how, int flags)
{
	bool slept = false;

	for (int n = 1; n <= YIELDS && !slept; n++)
		CHECK(interrupted_at(n, how, flags, &slept) == INTERRUPTED, "way %d: a signal at yield %d was lost",
		      how, n);
}

int main(void)
{
	for (enum how how = WAIT; how < WAYS; how++) {
		everywhere(how, 0);
		if (how != WAIT)
			everywhere(how, SA_RESTART);
	}
	return 0;
}
