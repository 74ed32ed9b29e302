/* SPDX-License-Identifier: MIT */
#include "worker/hogs.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "worker/status.h"

static void burn(pid_t parent, pid_t group)
{
	setpgid(0, group);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) /* it died before it could be said */
		_exit(0);
	for (volatile uint64_t spins = 0;; spins++)
		;
}

int fgb_hogs_start(struct fgb_hogs *hogs, uint64_t count)
{
	pid_t parent = getpid();

	hogs->pids = calloc(count + 1, sizeof(*hogs->pids));
	for (hogs->count = 0; hogs->pids && hogs->count < count; hogs->count++) {
		pid_t group = hogs->pids[0], pid = fork();

		if (pid == 0)
			burn(parent, group);
		if (pid < 0)
			break;
		hogs->pids[hogs->count] = pid;
		setpgid(pid, group); /* also here: the next one must find the group */
	}
	if (hogs->count == count && hogs->pids)
		return 0;
	fprintf(stderr, "fg-bench: cannot start hog %lu of %lu: %s\n", hogs->count + 1, count, strerror(errno));
	fgb_hogs_stop(hogs);
	return FGB_FAILED;
}

void fgb_hogs_stop(struct fgb_hogs *hogs)
{
	for (uint64_t i = 0; i < hogs->count; i++)
		kill(hogs->pids[i], SIGKILL);
	for (uint64_t i = 0; i < hogs->count; i++)
		waitpid(hogs->pids[i], NULL, 0);
	free(hogs->pids);
	hogs->pids = NULL;
	hogs->count = 0;
}
