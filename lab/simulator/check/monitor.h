/* SPDX-License-Identifier: MIT */
/* The monitor of a schedule: none, one that counts nothing, or one whose count changes at any step. */
#ifndef FGS_CHECK_MONITOR_H
#define FGS_CHECK_MONITOR_H

#include "runtime/monitor.h"
#include "simulator/check/check.h"

static inline void fgs_check_monitor(void)
{
	static struct fg_shared page __attribute__((aligned(FG_PAGE))) = {.heartbeat_ns = INT64_MAX};
	uint64_t r = fgs_random() >> 33;

	if (r % 3 == 0)
		return;
	fgi_monitor_attach(&page);
	if (r % 3 == 1)
		fgs_check_flip((uint32_t *)&page.num_preempted_cs);
}

#endif
