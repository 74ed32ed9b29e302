/* SPDX-License-Identifier: MIT */
/* fg-probe: does this machine have what a lock needs? `flexguard` asks before it uses a lock whose line in locks/LOCKS
 * says needs=WHAT.
 *
 *   fg-probe slice     the kernel's time-slice extension, for a process with this environment
 *
 * Exit status: 0 yes, 1 no (one line says why), 2 usage. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "locks/parts/slice_extension.h"

#define ENOTSUPP 524 /* the kernel's own, unknown to libc */

static const char *why(int error)
{
	switch (error) {
	case EINVAL:
		return "this kernel has none (Linux 7.0 or later with CONFIG_RSEQ_SLICE_EXTENSION has)";
	case ENOTSUPP:
		return "this kernel was built or booted without it, or the C library's rseq area is too short for it";
	case ENXIO:
	case ENOSYS:
		return "this kernel has no restartable sequences";
	default:
		return strerror(error);
	}
}

int main(int argc, char **argv)
{
	int error;

	if (argc != 2 || strcmp(argv[1], "slice") != 0) {
		fputs("usage: fg-probe slice\n", stderr);
		return 2;
	}
	error = fgi_slice_extension_start();
	if (error)
		puts(why(error));
	return error != 0;
}
