/* SPDX-License-Identifier: MIT */
/* Published intent, instruction by instruction: the CPU traps after each, and the handler is the monitor. It judges the
 * thread by its block, and the words say what is true. Then again with a handler that locks and unlocks, too: in place
 * of one instruction after the other, and at all of them. */
#include FGI_LOCK_FILE

#include <signal.h>

#include "tests/check.h"
#include "tests/sections.h"
#include "tests/unit/scenarios.h"

#define TRAP_FLAG "0x100"
#define NEVER UINT64_MAX
#define ALWAYS (UINT64_MAX - 1)

static struct fg_lock handlers;

static uint64_t step, disturb_at; /* which instruction of the scenario; where the handler locks */
static uint64_t overlooked, imagined, judged;

static bool owned(const struct fg_lock *l)
{
	return (fg_load_relaxed(&l->word) & FG_OWNER_MASK) == fg_thread.self;
}

/* abi/flexguard_abi.h. A word that is no lock of ours could not be read, or would not name us. */
static bool told_to_be_critical(void)
{
	for (size_t i = 0; i < sizeof(locks) / sizeof(locks[0]); i++)
		if (fg_thread.pending == (uint64_t)(uintptr_t)locks[i] && owned(locks[i]))
			return true;
	return fg_thread.held > 0;
}

static void after_instruction(int signo)
{
	bool truth = owned(&a) || owned(&b) || owned(&c), told = told_to_be_critical();

	(void)signo;
	overlooked += truth && !told;
	imagined += told && !truth;
	judged++;
	if (disturb_at == step++ || disturb_at == ALWAYS) {
		fgi_lock(&handlers);
		fgi_unlock(&handlers);
	}
}

/* The flag takes effect after the next instruction. */
static inline void trap(bool on)
{
	if (on)
		__asm__ volatile("pushfq\n orq $" TRAP_FLAG ", (%%rsp)\n popfq" ::: "memory", "cc");
	else
		__asm__ volatile("pushfq\n andq $~" TRAP_FLAG ", (%%rsp)\n popfq" ::: "memory", "cc");
}

static void run(void (*scenario)(void), uint64_t disturb)
{
	step = 0;
	disturb_at = disturb;
	trap(true);
	scenario();
	trap(false);
	disturb_at = NEVER;
	CHECK(!owned(&a) && !owned(&b) && !owned(&c));
	CHECK_SECTIONS(0);
}

/* `waits`: for many instructions, and perhaps as the head of a queue, which is critical, too. */
static void examine(const char *name, void (*scenario)(void), bool waits)
{
	uint64_t steps;

	overlooked = imagined = 0;
	run(scenario, NEVER);
	steps = step;
	CHECK(steps > 20, "%s: the CPU does not trap: %lu", name, (unsigned long)steps);
	CHECK(overlooked == 0 && (waits || imagined == 0),
	      "%s: critical for %lu instructions unseen, seen for %lu without", name, (unsigned long)overlooked,
	      (unsigned long)imagined);
	run(scenario, ALWAYS);
	for (uint64_t i = 0; !waits && i < steps; i++)
		run(scenario, i);
	CHECK(overlooked == 0, "%s: beside a handler critical for %lu instructions unseen", name,
	      (unsigned long)overlooked);
	printf("%s: %lu instructions\n", name, (unsigned long)steps);
}

static void *keep_busy(void *unused)
{
	(void)unused;
	fgi_lock(&busy);
	return NULL;
}

int main(void)
{
	const struct sigaction action = {.sa_handler = after_instruction};

	check_watchdog(500);
	fgi_self();
	check_join(check_thread(keep_busy, NULL));
	CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
	examine("alone", alone, false);
	examine("nested", nested, false);
	examine("crossed", crossed, false);
	examine("three", three, false);
	examine("refused", refused, false);
	examine("given up", given_up, true);
	printf("%lu instructions judged\n", (unsigned long)judged);
	return 0;
}
