/* SPDX-License-Identifier: MIT */
/* A worker of fg-bench: carries one lock, under one or more names. bench/launcher.c starts it. */
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"

const struct fgb_lock *fgb_find_lock(const char *name)
{
	for (const struct fgb_lock *l = fgb_locks; l->name; l++)
		if (strcmp(l->name, name) == 0)
			return l;
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "shm") == 0)
		return fgb_shm_main(argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "uncontended") == 0)
		return fgb_uncontended_main(argc - 1, argv + 1);
	fputs("This is a part of fg-bench: see fg-bench --help\n", stderr);
	return FGB_USAGE;
}
