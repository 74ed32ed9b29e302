/* SPDX-License-Identifier: MIT */
/* A child in the memory of its parent, which waits for it, as vfork and posix_spawn make it. */
#ifndef FG_TESTS_VFORKED_H
#define FG_TESTS_VFORKED_H

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include "tests/check.h"

/* Runs act(NULL) in such a child, which must return 0. */
static inline void in_vfork_child(int (*act)(void *))
{
	static char stack[1 << 16] __attribute__((aligned(16)));
	pid_t pid = clone(act, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
	int status;

	CHECK(pid > 0, "clone: %m");
	CHECK(waitpid(pid, &status, 0) == pid && status == 0, "the child: %x", status);
}

#endif
