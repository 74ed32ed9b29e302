/* SPDX-License-Identifier: MIT */
/* A seccomp filter on one system call, as a sandbox has them. There is no way back. */
#ifndef FG_TESTS_FORBID_H
#define FG_TESTS_FORBID_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "tests/check.h"

/* `action` is a SECCOMP_RET_* value, `flags` are of SECCOMP_FILTER_FLAG_*. */
static inline void filter_call(unsigned int number, unsigned int action, unsigned int flags)
{
	struct sock_filter program[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, action),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog filter = {sizeof(program) / sizeof(program[0]), program};

	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter) == 0, "seccomp: %m");
}

/* Takes a system call away from this process: EPERM. */
static inline void forbid(unsigned int number)
{
	filter_call(number, SECCOMP_RET_ERRNO | EPERM, SECCOMP_FILTER_FLAG_TSYNC);
}

#endif
