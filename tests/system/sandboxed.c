/* SPDX-License-Identifier: MIT */
/* A sandbox that answers system calls in a SIGSYS handler (a seccomp filter with SECCOMP_RET_TRAP): the library that is
 * loaded in it may be denied its socket, but must not be killed for asking. Argument: the library. */
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

static volatile sig_atomic_t denied;

static void deny(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)info;
	denied = 1;
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = -EACCES;
}

static int trap_sockets(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {sizeof(code) / sizeof(code[0]), code};
	struct sigaction action = {.sa_sigaction = deny, .sa_flags = SA_SIGINFO};

	return sigaction(SIGSYS, &action, NULL) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

int main(int argc, char **argv)
{
	if (argc != 2 || setenv("FLEXGUARD_SOCKET", "@nobody", 1))
		return 2;
	if (trap_sockets()) {
		perror("seccomp");
		return 77;
	}
	if (!dlopen(argv[1], RTLD_NOW)) {
		puts(dlerror());
		return 3;
	}
	return denied ? 0 : 1;
}
