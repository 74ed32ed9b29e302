/* SPDX-License-Identifier: MIT */
/* Prints what the calls of flexguard/advice.h cost, in ns: the least of many rounds, each less the cost of the loop
 * around it. The monitor is a page of this program's own.
 *
 *   cost
 *   cost switches    what a switch between two threads that yield to each other costs: outside of sections, in them,
 *                    and in them with handles; beside the monitor that this process has, or none
 */
#include <sched.h>

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

#define YIELDS 200000

enum state { OUTSIDE, IN_SECTION, WITH_HANDLE };

static pthread_barrier_t together;

static void *yield_in(void *state)
{
	enum state in = (enum state)(intptr_t)state;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	CHECK(sched_setaffinity(0, sizeof(set), &set) == 0, "%m");
	if (in == WITH_HANDLE)
		CHECK(fg_thread_handle() != 0);
	if (in != OUTSIDE)
		fg_section_begin();
	pthread_barrier_wait(&together);
	for (int i = 0; i < YIELDS; i++)
		sched_yield();
	if (in != OUTSIDE)
		fg_section_end();
	return NULL;
}

static double switch_ns(enum state in)
{
	uint64_t begin;
	pthread_t a, b;

	pthread_barrier_init(&together, NULL, 2);
	a = check_thread(yield_in, (void *)(intptr_t)in);
	b = check_thread(yield_in, (void *)(intptr_t)in);
	begin = fgi_now_ns(CLOCK_MONOTONIC);
	check_join(a);
	check_join(b);
	return (double)(fgi_now_ns(CLOCK_MONOTONIC) - begin) / (2 * YIELDS);
}

static int print_switches(void)
{
	static const char *const names[] = {"outside of sections", "in sections", "in sections, with handles"};
	double least[] = {1e9, 1e9, 1e9};

	for (int round = 0; round < 15; round++)
		for (int in = OUTSIDE; in <= WITH_HANDLE; in++) {
			double ns = switch_ns((enum state)in);

			if (ns < least[in])
				least[in] = ns;
		}
	for (int in = OUTSIDE; in <= WITH_HANDLE; in++)
		printf("a switch: %-34s %6.0f ns\n", names[in], least[in]);
	return 0;
}

int main(int argc, char **argv)
{
	const struct fg_wait whom = {.whom = (uint64_t)LIFE << 32 | TID}, late = {.whom = whom.whom, .looks = 1000};

	if (argc > 1 && strcmp(argv[1], "switches") == 0)
		return print_switches();
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
