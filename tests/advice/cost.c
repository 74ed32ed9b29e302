/* SPDX-License-Identifier: MIT */
/* Prints what the calls of flexguard/advice.h cost, in ns: the least of many rounds, each less the cost of the loop
 * around it. The monitor is a page of this program's own.
 *
 *   cost
 */
#include <flexguard/advice.h>
#include <flexguard/mutex_shared.h>

#include "runtime/clock.h"
#include "runtime/cpu.h"
#include "runtime/monitor.h"
#include "tests/check.h"

#define CALLS 100000
#define ROUNDS 200
#define TID 4711u
#define LIFE 0x123456u

static struct fg_published all __attribute__((aligned(FG_PAGE)));
static struct fg_mutex_shared mutex;
static struct fg_wait wait_;

static void nothing(void)
{
	__asm__ volatile("" ::: "memory");
}

static void section(void)
{
	fg_section_begin();
	fg_section_end();
}

static void advice(void)
{
	(void)fg_wait_advice(&wait_);
}

static void locked(void)
{
	fg_mutex_shared_lock(&mutex);
	fg_mutex_shared_unlock(&mutex);
}

static double least_ns(void (*call)(void))
{
	uint64_t least = UINT64_MAX;

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t begin = fgi_now_ns(CLOCK_MONOTONIC), ns;

		for (int i = 0; i < CALLS; i++) {
			call();
			__asm__ volatile("" : "+r"(call));
		}
		ns = fgi_now_ns(CLOCK_MONOTONIC) - begin;
		if (ns < least)
			least = ns;
	}
	return (double)least / CALLS;
}

static void print(const char *what, void (*call)(void))
{
	double bare = least_ns(nothing);

	printf("%-44s %6.2f ns\n", what, least_ns(call) - bare);
}

static void print_advice(const char *what, struct fg_wait w, uint32_t action)
{
	wait_ = w;
	CHECK_IS(fg_wait_advice(&w).action, action);
	print(what, advice);
}

static void say(uint32_t name, uint32_t cpu)
{
	all.off_cpu[1][fg_off_cpu_place(TID)] = name;
	all.off_cpu_notes[1][fg_off_cpu_place(TID)] = LIFE | cpu << FG_NOTE_CPU_SHIFT;
}

int main(void)
{
	const struct fg_wait whom = {.whom = (uint64_t)LIFE << 32 | TID}, late = {.whom = whom.whom, .looks = 1000};

	print("advice: no monitor", advice);
	all.page.heartbeat_ns = INT64_MAX;
	fgi_monitor_attach_all(&all, 1);
	print("a section: begin and end", section);
	print_advice("advice: whom, it runs", whom, FG_WAIT_SPIN);
	print_advice("advice: whom, it runs, after 1,000 looks", late, FG_WAIT_SPIN);
	print_advice("advice: how many, they run", (struct fg_wait){.number = 1}, FG_WAIT_SPIN);
	print_advice("advice: nothing known, all run", (struct fg_wait){0}, FG_WAIT_SPIN);
	say(TID | FG_RUNNABLE, fgi_cpu() ^ 1);
	print_advice("advice: whom, preempted on another CPU", whom, FG_WAIT_SLEEP);
	say(TID, 0);
	print_advice("advice: whom, asleep", whom, FG_WAIT_SLEEP);
	print("shared mutex: lock and unlock", locked);
	return 0;
}
