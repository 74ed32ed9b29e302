/* SPDX-License-Identifier: MIT */
/* sched_yield and thrd_yield: glibc's, and a short sleep where the monitor says that another process waits for this
 * CPU. There the system call gives that process a whole time slice, and a loop that waits by yields gets no further.
 * A sleeper comes back as soon as its share of the CPU time allows.
 *
 * Threads with a real-time policy yield to their own priority only, so they always make the system call. Without a
 * monitor, and with FLEXGUARD_YIELD=0, all threads do. No cancellation point; async-signal-safe; keeps errno.
 *
 * docs/results/integrations.md says what it brings. */
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <time.h>

#include "interpose/real.h"
#include "runtime/clock.h"
#include "runtime/futex.h"
#include "runtime/monitor.h"
#include "runtime/policy.h"

#define NAP_NS 50000u
#define YIELDS_PER_LOOK 64u
#define YIELD_ENV "FLEXGUARD_YIELD"

#define EXPORT __attribute__((visibility("default")))

static uint32_t plain; /* FLEXGUARD_YIELD is 0 */

__attribute__((constructor)) static void yield_start(void)
{
	const char *value = secure_getenv(YIELD_ENV);

	if (value && strcmp(value, "0") == 0)
		fg_store_relaxed(&plain, 1);
}

/* A page whose monitor has died would say for ever that another process waits, so each sleep looks whether it lives.
 * Now and then a yield looks, too: a program that waits by nothing else comes to a monitor that was loaded late. */
static bool monitor_lives(void)
{
	return fgi_monitor_alive(fgi_now_ns(CLOCK_MONOTONIC));
}

static bool sleeps(void)
{
	static __thread uint32_t yields __attribute__((tls_model("initial-exec")));

	if (fg_load_relaxed(&plain))
		return false;
	if (!fgi_other_process_waits()) {
		if (++yields % YIELDS_PER_LOOK == 0)
			(void)monitor_lives();
		return false;
	}
	return monitor_lives() && !fgi_real_time();
}

EXPORT int sched_yield(void)
{
	if (fg_likely(!sleeps()))
		return fgi_real()->yield();
	fgi_nap(NAP_NS);
	return 0;
}

EXPORT void thrd_yield(void)
{
	(void)sched_yield();
}
