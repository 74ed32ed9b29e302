/* SPDX-License-Identifier: MIT */
/* sched_yield and thrd_yield: glibc's, and a short sleep where a yield gives another process a whole time slice. There
 * a loop that waits by yields gets no further; a sleeper comes back as soon as its share of the CPU time allows.
 *
 * A thread sleeps if the monitor says that another process waits for this CPU, and if the latest yields of this
 * process have given such processes long turns. Processes that yield to one another have short turns, and a sleep costs
 * more than those.
 *
 * Threads with a real-time policy yield to their own priority only, so they always make the system call. Without a
 * monitor, with FLEXGUARD_YIELD=0, and in a program that has put itself into a sandbox, all threads do. No cancellation
 * point; async-signal-safe; keeps errno.
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
#include "runtime/sandbox.h"

#define NAP_NS 50000u
#define YIELDS_PER_LOOK 64u
#define LONG_TURN_US 1000u
#define LONG_TURNS 2u
#define LATELY_NS 100000000u
#define YIELD_ENV "FLEXGUARD_YIELD"

#define EXPORT __attribute__((visibility("default")))

static uint32_t unwanted; /* FLEXGUARD_YIELD is 0 */

__attribute__((constructor)) static void yield_start(void)
{
	const char *value = secure_getenv(YIELD_ENV);

	if (value && strcmp(value, "0") == 0)
		fg_store_relaxed(&unwanted, 1);
}

static uint64_t sleep_until_ns; /* by CLOCK_MONOTONIC; the latest yields gave long turns away */

/* A page whose monitor has died says the same for ever, so each sleep looks whether it lives. Now and then a yield
 * looks, too: a program that waits by nothing else comes to a monitor that was loaded late. */
static bool sleeps(void)
{
	static __thread uint32_t yields __attribute__((tls_model("initial-exec")));
	uint64_t until = fg_load_relaxed(&sleep_until_ns), now;

	if (fg_unlikely(++yields % YIELDS_PER_LOOK == 0))
		(void)fgi_monitor_alive(fgi_now_ns(CLOCK_MONOTONIC));
	if (fg_likely(!until) || !fgi_other_process_waits())
		return false;
	now = fgi_now_ns(CLOCK_MONOTONIC);
	return now < until && fgi_monitor_alive(now) && !fgi_real_time();
}

/* Another process had the CPU meanwhile, and has not gone to sleep. How long was its turn? */
static void learn(const struct fgi_process_switch *before)
{
	static uint32_t long_turns; /* one after the other, of any thread */
	struct fgi_process_switch now = fgi_process_switch();

	if (fg_likely(now.number == before->number || now.cpu != before->cpu || !(now.stay & FG_STAY_WAITS)))
		return;
	if ((now.stay & FG_STAY_US) < LONG_TURN_US)
		fg_store_relaxed(&long_turns, 0);
	else if (fg_fetch_add_relaxed(&long_turns, 1) + 1 >= LONG_TURNS)
		fg_store_relaxed(&sleep_until_ns, fgi_now_ns(CLOCK_MONOTONIC) + LATELY_NS);
}

EXPORT int sched_yield(void)
{
	struct fgi_process_switch before;
	int result;

	if (fg_load_relaxed(&unwanted) || fg_load_relaxed(&fgi_enters_sandbox))
		return fgi_real()->yield();
	if (sleeps()) {
		fgi_nap(NAP_NS);
		return 0;
	}
	before = fgi_process_switch();
	result = fgi_real()->yield();
	learn(&before);
	return result;
}

EXPORT void thrd_yield(void)
{
	(void)sched_yield();
}
