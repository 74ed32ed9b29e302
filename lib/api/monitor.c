/* SPDX-License-Identifier: MIT */
#include "flexguard/monitor.h"

#include "runtime/monitor.h"
#include "runtime/spin_budget.h"

bool fg_monitor_attached(void)
{
	return fgi_monitor_alive(fgi_now_ns(CLOCK_MONOTONIC));
}

int fg_monitor_error(void)
{
	return (int)fgi_monitor_refusal();
}

bool fg_critical_section_preempted(void)
{
	return fgi_preempted_cs();
}
