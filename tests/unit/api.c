/* SPDX-License-Identifier: MIT */
/* <flexguard/monitor.h>: what a wait loop of a program's own learns. The test plays the monitor. */
#include <flexguard/monitor.h>

#include "runtime/monitor.h"
#include "tests/check.h"

int main(void)
{
	static struct fg_shared page = {.heartbeat_ns = INT64_MAX};

	CHECK(!fg_critical_section_preempted() && !fg_monitor_attached(), "without a monitor");
	fgi_monitor_attach(&page);
	CHECK(!fg_critical_section_preempted() && fg_monitor_attached(), "nothing is preempted");
	__atomic_store_n(&page.num_preempted_cs, 2, __ATOMIC_RELAXED);
	CHECK(fg_critical_section_preempted(), "two threads are preempted");
	__atomic_store_n(&page.num_preempted_cs, 0, __ATOMIC_RELAXED);
	CHECK(!fg_critical_section_preempted(), "no longer");
	return 0;
}
