/* SPDX-License-Identifier: MIT */
/* A program that puts itself into a sandbox by prctl. Its filter kills for each call that glibc's semaphores do not
 * make. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <semaphore.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "tests/posix/posix.h"

static sem_t sem;
static pid_t waiter;
static int begun[3]; /* a wait */

static int wait_so(int way)
{
	struct timespec abs = from_now(way == 1 ? CLOCK_REALTIME : CLOCK_MONOTONIC, LONG_WAIT);

	return way == 0   ? sem_wait(&sem)
	       : way == 1 ? sem_timedwait(&sem, &abs)
			  : sem_clockwait(&sem, CLOCK_MONOTONIC, &abs);
}

/* A thread that was there before, and is under no filter. */
static void *post(void *arg)
{
	for (int way = 0; way < 3; way++) {
		await(&begun[way], 1);
		while (!sleeps(waiter))
			;
		ok(sem_post(&sem));
	}
	return arg;
}

static void enter_sandbox(void)
{
	static const unsigned int allowed[] = {SYS_futex, SYS_write, SYS_exit_group, SYS_clock_gettime};
	enum { CALLS = sizeof(allowed) / sizeof(allowed[0]) };
	struct sock_filter program[1 + 2 * CALLS + 1] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
	const struct sock_fprog filter = {sizeof(program) / sizeof(program[0]), program};

	for (int i = 0; i < CALLS; i++) {
		program[1 + 2 * i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 0, 1);
		program[2 + 2 * i] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	program[1 + 2 * CALLS] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	ok(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	ok(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0));
}

__attribute__((noreturn)) static void enter_and_wait(void)
{
	waiter = gettid();
	ok(sem_init(&sem, 0, 0));
	check_thread(post, NULL);
	enter_sandbox();
	for (int way = 0; way < 3; way++) {
		tell(&begun[way], 1);
		CHECK_IS(wait_so(way), 0);
	}
	_exit(0);
}

/* First a child of the system call, which runs no handler and leaves the parent's tid to libc. */
int main(void)
{
	pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	int status;

	if (child == 0)
		enter_and_wait();
	CHECK(waitpid(child, &status, 0) == child && status == 0, "the child: %x", status);
	enter_and_wait();
}
