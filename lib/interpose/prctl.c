/* SPDX-License-Identifier: MIT */
/* prctl: glibc's. A program that puts itself into a sandbox may be killed for a system call that it does not make
 * itself. So a registration that is left to waiters is finished before, and yields are no sleeps any more. Programs
 * give up new privileges first, as the kernel demands of all but root, and libseccomp of root, too. Not seen: a system
 * call by its number alone. */
#include <stdarg.h>
#include <sys/prctl.h>

#include "interpose/real.h"
#include "interpose/yield.h"
#include "runtime/monitor.h"

#define EXPORT __attribute__((visibility("default")))

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
	if (option == PR_SET_NO_NEW_PRIVS || option == PR_SET_SECCOMP) {
		fgi_monitor_before_sandbox();
		fgi_yield_before_sandbox();
	}
	return fgi_real()->process_control(option, a, b, c, d);
}
