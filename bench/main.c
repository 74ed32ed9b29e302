/* SPDX-License-Identifier: MIT */
/* fg-bench: one round of one microbenchmark of one lock in one process; prints one JSON object. `flexguard bench`
 * interleaves rounds and compares. */
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"

static const char usage[] =
	"fg-bench: one round of a lock microbenchmark; prints one JSON object\n"
	"\n"
	"  fg-bench shm --lock NAME --threads N --seconds S     shared-memory access (FlexGuard, section 5.2)\n"
	"      each thread: lock, write to the shared lines, unlock, wait\n"
	"      --lines N            cache lines written in a section (2)\n"
	"      --cycles-between N   cycles between two sections (100)\n"
	"      --section-cycles N   cycles that a section lasts longer (0)\n"
	"      --warmup S           seconds before the measurement begins (0.2)\n"
	"      --sample N           time every Nth operation (16)\n"
	"  fg-bench uncontended --lock NAME                     ns per lock and unlock by one thread, best batch\n"
	"      --batches N          (2000)\n"
	"      --pairs N            pairs in a batch (5000)\n"
	"      --single-threaded    without a second, sleeping thread: the C library then skips its atomics\n"
	"  fg-bench pthread-uncontended                         the same of pthread_mutex_lock: LD_PRELOAD decides\n"
	"  fg-bench --list                                      the locks, one a line\n"
	"  fg-bench --help\n"
	"\n"
	"  --json is accepted everywhere: it is the only output there is.\n"
	"  Exit status: 0, 1 the system refused, 2 usage, 3 mutual exclusion was violated, 4 a thread never got the "
	"lock\n";

const struct fgb_lock *fgb_find_lock(const char *name)
{
	for (const struct fgb_lock *l = fgb_locks; l->name; l++)
		if (strcmp(l->name, name) == 0)
			return l;
	return NULL;
}

static int list(void)
{
	for (const struct fgb_lock *l = fgb_locks; l->name; l++)
		puts(l->name);
	return 0;
}

/* pthread-uncontended is `uncontended --lock posix`, for whoever measures an interposer. */
static int pthread_uncontended(int argc, char **argv)
{
	char *with_lock[16] = {argv[0], "--lock", "posix"};

	if (argc > 12) {
		fputs("fg-bench: too many arguments\n", stderr);
		return FGB_USAGE;
	}
	memcpy(with_lock + 3, argv + 1, (size_t)(argc - 1) * sizeof(*argv));
	return fgb_uncontended_main(argc + 2, with_lock);
}

int main(int argc, char **argv)
{
	const char *command = argc > 1 ? argv[1] : "";

	if (strcmp(command, "shm") == 0)
		return fgb_shm_main(argc - 1, argv + 1);
	if (strcmp(command, "uncontended") == 0)
		return fgb_uncontended_main(argc - 1, argv + 1);
	if (strcmp(command, "pthread-uncontended") == 0)
		return pthread_uncontended(argc - 1, argv + 1);
	if (strcmp(command, "--list") == 0)
		return list();
	if (strcmp(command, "--help") == 0) {
		fputs(usage, stdout);
		return 0;
	}
	fprintf(stderr, "fg-bench: %s '%s'\n%s", *command ? "unknown command" : "which benchmark?", command, usage);
	return FGB_USAGE;
}
