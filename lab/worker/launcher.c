/* SPDX-License-Identifier: MIT */
/* fg-bench: one round of one microbenchmark of one lock; prints one JSON object. `flexguard bench` interleaves rounds
 * and compares.
 *
 * This is the front; it becomes the worker that carries the lock, fg-bench-FILE. One lock a program, as in real ones:
 * a process may register FG_MAX_WINDOWS windows, and what a context switch costs depends on how many it has. */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/launcher.h"

static const char usage[] =
	"fg-bench: one round of a lock microbenchmark; prints one JSON object\n"
	"\n"
	"  fg-bench WORKLOAD --lock NAME --threads N --seconds S [OPTIONS]\n"
	"  fg-bench WORKLOAD --help                             its options\n"
	"  fg-bench uncontended --lock NAME                     ns per lock and unlock by one thread, best batch\n"
	"      --batches N          (2000)\n"
	"      --pairs N            pairs in a batch (5000)\n"
	"      --single-threaded    without a second, sleeping thread: the C library then skips its atomics\n"
	"  fg-bench pthread-uncontended                         the same of pthread_mutex_lock: LD_PRELOAD decides\n"
	"  fg-bench --list                                      the locks, one a line: name, tab, libc, own,\n"
	"                                                       peer or variant\n"
	"  fg-bench --options                                   every workload's options, as JSON\n"
	"  fg-bench --help\n"
	"\n"
	"  Exit status: 0, 1 the system refused, 2 usage, 3 mutual exclusion was violated, 4 a thread never got the\n"
	"  lock, 77 this machine cannot run the lock\n"
	"\n"
	"  Workloads:";

/* Where this program and its workers are. */
static bool beside(char *path, size_t size, const char *file)
{
	char self[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (length < 0) {
		perror("fg-bench: /proc/self/exe");
		return false;
	}
	self[length] = '\0';
	snprintf(path, size, "%s/%s", dirname(self), file);
	return true;
}

/* Peers are built where their libraries are, and those in Rust by cargo: only what is there can be measured. */
static int list(void)
{
	char path[PATH_MAX + 64];

	for (const struct fgb_program *p = fgb_programs; p->lock; p++)
		if (beside(path, sizeof(path), p->file) && access(path, X_OK) == 0)
			printf("%s\t%s\n", p->lock, p->kind);
	return 0;
}

static void help(void)
{
	fputs(usage, stdout);
	for (const char *const *w = fgb_workload_names; *w; w++)
		printf(" %s", *w);
	fputs("\n  By calls of pthread functions, for --lock posix and an interposer in LD_PRELOAD:", stdout);
	for (const char *const *w = fgb_pthread_workload_names; *w; w++)
		printf(" %s", *w);
	puts("");
}

static bool is_in(const char *const *names, const char *name)
{
	for (; *names; names++)
		if (strcmp(name, *names) == 0)
			return true;
	return false;
}

static const struct fgb_program *program_of(const char *lock)
{
	for (const struct fgb_program *p = fgb_programs; p->lock; p++)
		if (strcmp(p->lock, lock) == 0)
			return p;
	return NULL;
}

/* The C library must leave the registration of a restartable-sequences area to the lock
 * (lock/slice_extension.h). Whether the machine has the extension is not asked here: the lock is correct
 * without. */
static bool leave_rseq_to_the_lock(void)
{
	const char *tunables = getenv("GLIBC_TUNABLES");
	char value[4096];
	int n = snprintf(value, sizeof(value), "%s%sglibc.pthread.rseq=0", tunables ? tunables : "",
			 tunables && *tunables ? ":" : "");

	return n < (int)sizeof(value) && setenv("GLIBC_TUNABLES", value, 1) == 0;
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
	char path[PATH_MAX + 64];

	if (!beside(path, sizeof(path), file))
		return FGB_FAILED;
	execv(path, argv);
	fprintf(stderr, "fg-bench: cannot run %s: %s (it is installed beside fg-bench)\n", path, strerror(errno));
	return FGB_FAILED;
}

/* argv[1] is the benchmark's name. */
static int run(int argc, char **argv)
{
	const struct fgb_program *program;
	const char *lock = lock_in(argc, argv);

	if (argc == 3 && strcmp(argv[2], "--help") == 0)
		return become(fgb_programs[0].file, argv);
	if (!lock) {
		fprintf(stderr, "fg-bench: %s needs --lock NAME (see fg-bench --list)\n", argv[1]);
		return FGB_USAGE;
	}
	if (is_in(fgb_pthread_workload_names, argv[1]) && strcmp(lock, "posix") != 0) {
		fprintf(stderr,
			"fg-bench: %s calls pthread functions, which lock '%s' answers only as an interposer: "
			"use --lock posix with LD_PRELOAD=.../flexguard/%s.so\n",
			argv[1], lock, lock);
		return FGB_USAGE;
	}
	program = program_of(lock);
	if (!program) {
		fprintf(stderr, "fg-bench: unknown lock '%s' (see fg-bench --list)\n", lock);
		return FGB_USAGE;
	}
	if (program->needs_slice && !leave_rseq_to_the_lock()) {
		fputs("fg-bench: GLIBC_TUNABLES is too long to add to\n", stderr);
		return FGB_FAILED;
	}
	return become(program->file, argv);
}

/* pthread-uncontended is `uncontended --lock posix`, to measure an interposer. */
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

	if (is_in(fgb_workload_names, command) || is_in(fgb_pthread_workload_names, command) ||
	    strcmp(command, "uncontended") == 0)
		return run(argc, argv);
	if (strcmp(command, "pthread-uncontended") == 0)
		return pthread_uncontended(argc, argv);
	if (strcmp(command, "--list") == 0)
		return list();
	if (strcmp(command, "--options") == 0)
		return become(fgb_programs[0].file, argv);
	if (strcmp(command, "--help") == 0) {
		help();
		return 0;
	}
	fprintf(stderr, "fg-bench: %s '%s' (see fg-bench --help)\n", *command ? "unknown command" : "which benchmark?",
		command);
	return FGB_USAGE;
}
