/* SPDX-License-Identifier: MIT */
/* A worker of fg-bench: carries one lock. worker/launcher.c starts it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/bench.h"

bool fgb_available(const struct fgb_lock *lock)
{
	const char *refusal = lock->carried->refusal(), *force = getenv("FLEXGUARD_FORCE");

	if (refusal && force && strcmp(force, "1") == 0)
		return true;
	if (refusal)
		fprintf(stderr, "fg-bench: lock %s cannot run here: %s\n", lock->name, refusal);
	return !refusal;
}

static const struct fgb_workload *find_workload(const struct fgb_workload *const *workloads, const char *name)
{
	for (; *workloads; workloads++)
		if (strcmp(name, (*workloads)->name) == 0)
			return *workloads;
	return NULL;
}

int fgb_main(int argc, char **argv)
{
	const char *command = argc > 1 ? argv[1] : "";

	const struct fgb_workload *workload = find_workload(fgb_carried.workloads, command);

	if (!workload)
		workload = find_workload(fgb_carried.pthread_workloads, command);
	if (workload)
		return fgb_round_main(workload, argc - 1, argv + 1);
	if (strcmp(command, "--options") == 0) {
		fgb_print_catalogue(&fgb_carried);
		return 0;
	}
	if (strcmp(command, "uncontended") == 0)
		return fgb_uncontended_main(argc - 1, argv + 1);
	fputs("This is a part of fg-bench: see fg-bench --help\n", stderr);
	return FGB_USAGE;
}
