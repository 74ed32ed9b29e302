/* SPDX-License-Identifier: MIT */
/* In place of worker/hogs.c: a hog is a simulated thread of a process of its own. */
#include "worker/hogs.h"

#include <stdio.h>

#include "simulator/virtual.h"
#include "worker/status.h"

static void *burn(void *unused)
{
	(void)unused;
	for (;;)
		fgs_compute(FGS_MS);
	return NULL;
}

int fgb_hogs_start(struct fgb_hogs *hogs, uint64_t count)
{
	for (hogs->count = 0; hogs->count < count; hogs->count++) {
		struct fgs_thread *t = fgs_thread_new(burn, NULL, (uint32_t)hogs->count + 1);

		if (!t) {
			fprintf(stderr, "fg-bench: cannot start hog %lu of %lu: the model holds %u threads\n",
				hogs->count + 1, count, FGS_THREADS);
			return FGB_FAILED;
		}
		fgs_set_nice(t, 0);
		fgs_virtual_confine(t);
		fgs_watch_thread(t);
		fgs_wake_new(t, fgs_here->now);
	}
	return 0;
}

/* They run to the end. */
void fgb_hogs_stop(struct fgb_hogs *hogs)
{
	hogs->count = 0;
}
