/* SPDX-License-Identifier: MIT */
/* prctl: glibc's. A program that puts itself into a sandbox may be killed for a system call that it does not make
 * itself. So a registration that is left to waiters is finished before, and from then on yields and waits for
 * semaphores make glibc's system calls only. Programs give up new privileges first, as the kernel demands of all but
 * root, and libseccomp of root, too. Not seen: a system call by its number alone. */
#include <stdarg.h>
#include <sys/prctl.h>

#include "interpose/real.h"
#include "runtime/monitor.h"
#include "runtime/sandbox.h"
#include "runtime/thread.h"

#define EXPORT __attribute__((visibility("default")))

/* A second call of the program may come under its first filter, and a program that was put into a sandbox is under one
 * from the start. That may forbid even the system call of fgi_is_own_memory, and nothing is left to do. */
static void before_sandbox(void)
{
	fgi_monitor_before_sandbox();
	if (!fg_load_relaxed(&fgi_sandboxed) && !fg_load_relaxed(&fgi_enters_sandbox) && fgi_is_own_memory())
		fg_store_relaxed(&fgi_enters_sandbox, 1);
}

EXPORT int prctl(int option, ...)
{
	unsigned long a, b, c, d;
	va_list arguments;

	va_start(arguments, option);
	a = va_arg(arguments, unsigned long);
	b = va_arg(arguments, unsigned long);
	c = va_arg(arguments, unsigned long);
	d = va_arg(arguments, unsigned long);
	va_end(arguments);
	if (option == PR_SET_NO_NEW_PRIVS || option == PR_SET_SECCOMP)
		before_sandbox();
	return fgi_real()->process_control(option, a, b, c, d);
}
