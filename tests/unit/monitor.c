/* SPDX-License-Identifier: MIT */
/* A thread that is about to enter a sandbox while another thread takes a step of a registration. The other has no
 * real-time policy, and this one's CPU: it runs while this thread sleeps, and at no yield. */
#include "runtime/sandbox.h"

#include "tests/check.h"

static void other_runs(uint32_t ns);

#define fgi_nap other_runs
#define fgi_system_yield() CHECK(false, "a yield lets no thread of lower priority run")
#include "runtime/monitor.c"
#undef fgi_nap
#undef fgi_system_yield

static int naps;

static void other_runs(uint32_t ns)
{
	CHECK(ns > 0);
	if (++naps == 3)
		fg_store_release(&dialogue.busy, 0);
}

int main(void)
{
	may_reconnect = 1;
	dialogue.busy = 1;
	fgi_monitor_before_sandbox();
	CHECK_IS(naps, 3);
	CHECK_IS(may_reconnect, 0);
	CHECK_IS(dialogue.busy, 0);
	return 0;
}
