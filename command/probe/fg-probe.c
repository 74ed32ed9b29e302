/* SPDX-License-Identifier: MIT */
/* fg-probe: does this machine have what a lock needs? `flexguard` asks before it uses a lock whose line in LOCKS
 * says needs=WHAT, and in `doctor`.
 *
 *   fg-probe slice     the kernel's time-slice extension, for a process with this environment
 *   fg-probe glibc     are glibc's objects as the interposers know them? They leave others to glibc
 *
 * Exit status: 0 yes, 1 no, 2 usage. One line on stdout says why not, or what was found. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "interpose/glibc_layout.h"
#include "lock/slice_extension.h"

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

static int slice(void)
{
	int error = fgi_slice_extension_start();

	if (error)
		puts(why(error));
	return error != 0;
}

static int glibc(void)
{
	uint32_t flags_at = fgi_glibc_find_cond_flags(pthread_cond_init);
	const struct {
		const char *name;
		bool understood;
	} objects[] = {
		{"condition variables", flags_at},
		{"read-write locks", fgi_glibc_knows_rwlock(pthread_rwlock_init)},
		{"barriers", fgi_glibc_knows_barrier(pthread_barrier_init)},
		{"spinlocks", fgi_glibc_knows_spin(pthread_spin_lock)},
	};
	int unknown = 0;

	for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++)
		if (!objects[i].understood)
			printf("%s%s", unknown++ ? ", " : "", objects[i].name);
	if (!unknown)
		printf("condition variables (flags at byte %u), read-write locks, barriers and spinlocks", flags_at);
	puts("");
	return unknown != 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "slice") == 0)
		return slice();
	if (argc == 2 && strcmp(argv[1], "glibc") == 0)
		return glibc();
	fputs("usage: fg-probe slice|glibc\n", stderr);
	return 2;
}
