/* SPDX-License-Identifier: MIT */
/* Processes that do nothing but burn CPU beside a round (figure 3, right half): they use no lock, and none of ours may
 * count on them. */
#ifndef FGB_HOGS_H
#define FGB_HOGS_H

#include <stdint.h>
#include <sys/types.h>

struct fgb_hogs {
	uint64_t count;
	pid_t *pids;
};

/* Starts them, all in one process group of their own. They die with the calling thread, whatever ends it. 0, or
 * FGB_FAILED after a message. */
int fgb_hogs_start(struct fgb_hogs *hogs, uint64_t count);

void fgb_hogs_stop(struct fgb_hogs *hogs);

#endif
