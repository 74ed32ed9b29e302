/* SPDX-License-Identifier: MIT */
/* fg-bench: one round of one microbenchmark of one lock; prints one JSON object. `flexguard bench` interleaves rounds
 * and compares.
 *
 * This is the front; it becomes the worker that carries the lock, fg-bench-FILE. One lock a program, as in real ones:
 * a process may register FG_MAX_WINDOWS windows, and what a context switch costs depends on how many it has. */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/launcher.h"

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

static int list(void)
{
	for (const struct fgb_program *p = fgb_programs; p->lock; p++)
		puts(p->lock);
	return 0;
}

static const char *program_of(const char *lock)
{
	for (const struct fgb_program *p = fgb_programs; p->lock; p++)
		if (strcmp(p->lock, lock) == 0)
			return p->file;
	return NULL;
}

/* The value of the last --lock, as the worker will read it; NULL without one. */
static const char *lock_in(int argc, char **argv)
{
	const char *lock = NULL;

	for (int i = 0; i < argc; i++) {
		if (strncmp(argv[i], "--lock=", 7) == 0)
			lock = argv[i] + 7;
		else if (strcmp(argv[i], "--lock") == 0 && i + 1 < argc)
			lock = argv[++i];
	}
	return lock;
}

/* Becomes the worker. Returns only if that fails. */
static int become(const char *file, char **argv)
{
	char self[PATH_MAX], path[PATH_MAX + 64];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (length < 0) {
		perror("fg-bench: /proc/self/exe");
		return FGB_FAILED;
	}
	self[length] = '\0';
	snprintf(path, sizeof(path), "%s/%s", dirname(self), file);
	execv(path, argv);
	fprintf(stderr, "fg-bench: cannot run %s: %s (it is installed beside fg-bench)\n", path, strerror(errno));
	return FGB_FAILED;
}

/* argv[1] is the benchmark's name. */
static int run(int argc, char **argv)
{
	const char *lock = lock_in(argc, argv), *file;

	if (!lock) {
		fprintf(stderr, "fg-bench: %s needs --lock NAME (see fg-bench --list)\n", argv[1]);
		return FGB_USAGE;
	}
	file = program_of(lock);
	if (!file) {
		fprintf(stderr, "fg-bench: unknown lock '%s' (see fg-bench --list)\n", lock);
		return FGB_USAGE;
	}
	return become(file, argv);
}

/* pthread-uncontended is `uncontended --lock posix`, for whoever measures an interposer. */
static int pthread_uncontended(int argc, char **argv)
{
	char **with_lock = calloc((size_t)argc + 3, sizeof(*with_lock));
	int status;

	if (!with_lock) {
		fputs("fg-bench: not enough memory\n", stderr);
		return FGB_FAILED;
	}
	memcpy(with_lock, argv, (size_t)argc * sizeof(*argv));
	with_lock[1] = "uncontended";
	with_lock[argc] = "--lock";
	with_lock[argc + 1] = "posix";
	status = run(argc + 2, with_lock);
	free(with_lock);
	return status;
}

int main(int argc, char **argv)
{
	const char *command = argc > 1 ? argv[1] : "";

	if (strcmp(command, "shm") == 0 || strcmp(command, "uncontended") == 0)
		return run(argc, argv);
	if (strcmp(command, "pthread-uncontended") == 0)
		return pthread_uncontended(argc, argv);
	if (strcmp(command, "--list") == 0)
		return list();
	if (strcmp(command, "--help") == 0) {
		fputs(usage, stdout);
		return 0;
	}
	fprintf(stderr, "fg-bench: %s '%s'\n%s", *command ? "unknown command" : "which benchmark?", command, usage);
	return FGB_USAGE;
}
