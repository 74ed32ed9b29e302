/* SPDX-License-Identifier: MIT */
/* A loop of lab/loops under the simulator:
 *
 *   fg-sim-loop-NAME ARGUMENT... [HOGS hogs]     and the simulator's options
 *
 * with so many busy processes beside it. The advice is a part of this unit: what its constructor learned of CPUs is
 * about the host, and is learned anew. */
#define main fgs_loop
#include FGS_LOOP_FILE
#undef main
#include "advice/advice.c"
#include "worker/bench.h"
#include "worker/hogs.h"

int fgb_main(int argc, char **argv)
{
	struct fgb_hogs hogs;
	uint64_t count = 0;

	count_cpus();
	if (argc > 3 && strcmp(argv[argc - 1], "hogs") == 0) {
		count = (uint64_t)atoi(argv[argc - 2]);
		argc -= 2;
	}
	if (fgb_hogs_start(&hogs, count))
		return FGB_FAILED;
	return fgs_loop(argc, argv);
}
