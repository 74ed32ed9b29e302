/* SPDX-License-Identifier: MIT */
/* The park count of a lock is what its waiters really do: threads contend for a lock, and each one's count is compared
 * with the futex waits that the kernel saw it make. A second process traces them (ptrace, seccomp): it knows nothing of
 * the lock.
 *
 *   parks MUST     1: waiters behind a held lock park sooner or later; 0: they may spin for ever
 *
 * A thread tells the tracer by two futex calls that do nothing where its sequence begins, and where it ends and how
 * often it says that it parked. */
#include "runtime/futex.h"

static __thread uint64_t naps; /* of this thread: futex waits that are no parks */

static inline void counted_nap(uint32_t ns)
{
	naps++;
	fgi_nap(ns);
}

#define fgi_nap counted_nap
#include FGI_LOCK_FILE
#undef fgi_nap

#include <errno.h>
#include <linux/futex.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/check.h"
#include "tests/unit/forbid.h"

#define WAITERS 3
#define TURNS 50
#define NAP_EVERY 10
#define TIDS 64 /* more than threads ever start */

static struct fg_lock lock;
static uint32_t begin_mark, end_mark; /* their addresses are the marks: the same in both processes */
static bool must;

/* ---- the traced process ---- */

struct waiter {
	pthread_t thread;
	const struct fg_thread_block *block; /* NULL: it does not run yet */
};

static void mark(uint32_t *word, uint64_t value)
{
	syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, (int)value, NULL, NULL, 0);
}

static void *waiter_main(void *argument)
{
	struct waiter *w = argument;

	fgi_self();
	mark(&begin_mark, 0);
	fg_store_release(&w->block, &fg_thread);
	for (int turn = 0; turn < TURNS; turn++) {
		fgi_lock(&lock);
		if (turn % NAP_EVERY == 0)
			counted_nap(50000); /* so that others arrive and wait */
		fgi_unlock(&lock);
	}
	mark(&end_mark, fg_thread.parks + naps);
	return NULL;
}

static uint64_t parked(const struct waiter *waiters)
{
	uint64_t sum = 0;

	for (int i = 0; i < WAITERS; i++) {
		const struct fg_thread_block *block = fg_load_acquire(&waiters[i].block);

		if (!block)
			return 0; /* all of them are to wait behind the held lock */
		sum += fg_load_relaxed(&block->parks);
	}
	return sum;
}

static void contend(void)
{
	struct waiter waiters[WAITERS] = {0};

	fgi_lock(&lock);
	for (int i = 0; i < WAITERS; i++)
		waiters[i].thread = check_thread(waiter_main, &waiters[i]);
	while (must && parked(waiters) == 0)
		fgi_nap(100000);
	fgi_unlock(&lock);
	for (int i = 0; i < WAITERS; i++)
		check_join(waiters[i].thread);
}

static void traced_main(int go)
{
	char byte;

	check_watchdog(500);
	CHECK_IS(read(go, &byte, 1), 1);
	filter_call(SYS_futex, SECCOMP_RET_TRACE, 0); /* of this thread and those that it starts */
	contend();
	_exit(0);
}

/* ---- the tracer ---- */

static struct seen {
	pid_t tid;
	uint64_t waits;
} seen[TIDS];

static struct seen *of(pid_t tid)
{
	int i = 0;

	while (i < TIDS && seen[i].tid && seen[i].tid != tid)
		i++;
	CHECK(i < TIDS, "more than %d threads", TIDS);
	seen[i].tid = tid;
	return &seen[i];
}

static uint64_t ended, all_waits;

/* A thread is about to make a futex call. */
static void count(pid_t tid)
{
	struct __ptrace_syscall_info info;
	struct seen *s = of(tid);
	uint64_t word, op, value;

	CHECK(ptrace(PTRACE_GET_SYSCALL_INFO, tid, (void *)sizeof(info), &info) > 0, "%s", strerror(errno));
	CHECK_IS(info.op, PTRACE_SYSCALL_INFO_SECCOMP);
	word = info.seccomp.args[0];
	op = info.seccomp.args[1] & FUTEX_CMD_MASK;
	value = (uint32_t)info.seccomp.args[2];
	if (word == (uintptr_t)&begin_mark) {
		s->waits = 0;
	} else if (word == (uintptr_t)&end_mark) {
		CHECK(value == s->waits, "%lu parks counted, %lu waits seen", (unsigned long)value,
		      (unsigned long)s->waits);
		all_waits += s->waits;
		ended++;
		s->waits = 0;
	} else if (op == FUTEX_WAIT || op == FUTEX_WAIT_BITSET) {
		s->waits++;
	}
}

/* Follows all threads of the process until it ends; its exit status. */
static int trace(pid_t child)
{
	int status;

	for (;;) {
		pid_t tid = waitpid(-1, &status, __WALL);
		int event, signo;

		CHECK(tid > 0, "waitpid: %s", strerror(errno));
		if (!WIFSTOPPED(status)) {
			if (tid == child)
				return status;
			continue;
		}
		event = status >> 16;
		signo = WSTOPSIG(status);
		if (event == PTRACE_EVENT_SECCOMP)
			count(tid);
		/* It may have been killed meanwhile; then waitpid says so. */
		ptrace(PTRACE_CONT, tid, NULL, (void *)(uintptr_t)(event ? 0 : signo));
	}
}

int main(int argc, char **argv)
{
	long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
	int go[2], status;
	pid_t child;

	CHECK(argc == 2, "usage: parks MUST");
	must = strcmp(argv[1], "1") == 0;
	ok(pipe(go));
	child = fork();
	CHECK(child >= 0, "fork: %s", strerror(errno));
	if (child == 0)
		traced_main(go[0]);
	CHECK(ptrace(PTRACE_SEIZE, child, NULL, (void *)options) == 0, "ptrace: %s", strerror(errno));
	CHECK_IS(write(go[1], "x", 1), 1);
	status = trace(child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the traced process ended with %#x", (unsigned int)status);
	CHECK_IS(ended, WAITERS);
	CHECK(!must || all_waits > WAITERS * TURNS / NAP_EVERY, "no waiter parked");
	return 0;
}
