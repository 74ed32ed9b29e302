/* SPDX-License-Identifier: MIT */
/* What is published of each CPU, and of a thread that it was taken from, at the first CPUs, the last ones and beyond:
 * the monitor's own code writes it, the locks' code reads it. */
#include <string.h>

#include "monitor/bpf/cpus.h"
#include "monitor/bpf/names.h"
#include "runtime/cpu.h"

static uint32_t here;

static uint32_t pretended_cpu(void)
{
	return here;
}

#define fgi_cpu() pretended_cpu()
#include "advice/page.h"
#include "lock/slice_forecast.h"
#undef fgi_cpu

#include "tests/check.h"

static struct fg_published all;
static struct fg_published before;
static struct fg_cpu_counts counts;
static struct task_struct idle = {.flags = PF_KTHREAD}, one = {.pid = 7, .tgid = 7}, two = {.pid = 8, .tgid = 8};

static const uint32_t numbers[] = {0, 1, 63, 64, 127, 128, 254, 255, 256, 300, FG_CPUS - 2, FG_CPUS - 1};
static const uint32_t beyond[] = {FG_CPUS, FG_CPUS + 1, 2 * FG_CPUS, 8191, UINT32_MAX};

static void begin(void)
{
	memset(&all, 0, sizeof(all));
	counts = (struct fg_cpu_counts){0};
	fgi_monitor_attach_all(&all, 0);
}

/* Did nothing change but the line of one CPU, and how many were seen? */
static bool kept_the_rest(const struct fg_cpu *line)
{
	before.page.cpus_seen = all.page.cpus_seen;
	before.cpus[line - all.cpus] = *line;
	return memcmp(&before, &all, sizeof(all)) == 0;
}

static void writes_its_own_line(uint32_t cpu)
{
	struct fg_cpu *line = line_of(cpu, &all);

	CHECK(line == all.cpus + cpu);
	begin();
	here = cpu;
	memset(all.cpus, 0xff, sizeof(all.cpus));
	*line = (struct fg_cpu){0};
	before = all;
	publish_cpu(&one, &idle, false, cpu, &all, &counts);
	CHECK_IS(line->idle, 1);
	CHECK_IS(all.page.cpus_seen, cpu + 1);
	publish_cpu(&idle, &one, true, cpu, &all, &counts);
	CHECK_IS(line->idle, 0);
	two.se.exec_start = one.se.exec_start + 3000000;
	publish_cpu(&one, &two, true, cpu, &all, &counts);
	CHECK_IS(fgi_process_switch().stay, 3000 | FG_STAY_WAITS);
	CHECK_IS(fgi_process_switch().number, 2); /* the first from no process at all */
	CHECK(fgi_other_process_waits());
	publish_cpu(&two, &idle, false, cpu, &all, &counts);
	CHECK(!fgi_other_process_waits());
	line->slice_end_ns = 77;
	CHECK_IS(fgi_slice_published(), 77);
	CHECK(kept_the_rest(line));
	CHECK_IS(line->idle, 1);
	publish_off_line(cpu, &all);
	CHECK_IS(line->idle, 0);
	CHECK_IS(fgi_slice_published(), 77);
	CHECK(kept_the_rest(line));
}

static void knows_nothing_beyond(uint32_t cpu)
{
	begin();
	memset(all.cpus, 0xff, sizeof(all.cpus));
	before = all;
	publish_cpu(&one, &idle, true, cpu, &all, &counts);
	publish_cpu(&idle, &one, true, cpu, &all, &counts);
	publish_cpu(&one, &two, true, cpu, &all, &counts);
	publish_off_line(cpu, &all);
	CHECK(!line_of(cpu, &all));
	CHECK(memcmp(&before, &all, sizeof(all)) == 0);
	here = cpu;
	CHECK_IS(fgi_slice_published(), 0);
	CHECK_IS(fgi_process_switch().stay, 0);
	CHECK(!fgi_other_process_waits());
	CHECK(fgi_gave_slice_away(fgi_process_switch(), true));
	CHECK(!fgi_gave_slice_away(fgi_process_switch(), false));
}

/* Another process, for longer than a slice, on this CPU. */
static void says_who_had_it_for_a_slice(uint32_t cpu, uint32_t us, bool slice)
{
	struct fgi_process_switch since;

	begin();
	here = cpu;
	publish_cpu(&idle, &one, true, cpu, &all, &counts);
	since = fgi_process_switch();
	CHECK(!fgi_gave_slice_away(since, true));
	two.se.exec_start = one.se.exec_start + us * (uint64_t)1000;
	publish_cpu(&one, &two, true, cpu, &all, &counts);
	CHECK_IS(fgi_gave_slice_away(since, !slice), slice);
	since = fgi_process_switch();
	CHECK(!fgi_gave_slice_away(since, true));
	here = cpu ? 0 : 1; /* moved */
	CHECK(fgi_gave_slice_away(since, true));
	CHECK(!fgi_gave_slice_away(since, false));
}

/* From any CPU, also one that is beyond the lines: if it is among the CPUs that are asked for. */
static void finds_an_idle_cpu(uint32_t idle_one, uint32_t seen)
{
	uint64_t every[FG_CPUS / 64], alone[FG_CPUS / 64] = {0}, others[FG_CPUS / 64];

	memset(every, 0xff, sizeof(every));
	memcpy(others, every, sizeof(others));
	alone[idle_one / 64] |= (uint64_t)1 << idle_one % 64;
	others[idle_one / 64] ^= alone[idle_one / 64];
	begin();
	all.page.cpus_seen = seen;
	for (here = 0; here < 2 * FG_CPUS; here += 97)
		CHECK(!fgi_idle_cpu(every));
	all.cpus[idle_one].idle = 1;
	for (here = 0; here < 2 * FG_CPUS; here += 97) {
		CHECK(fgi_idle_cpu(alone), "%u of %u, from %u", idle_one, seen, here);
		CHECK(!fgi_idle_cpu(others), "%u of %u, from %u", idle_one, seen, here);
		CHECK(seen > FGI_IDLE_LOOKS || fgi_idle_cpu(every), "%u of %u, from %u", idle_one, seen, here);
	}
	all.page.cpus_seen = 0;
	CHECK(!fgi_idle_cpu(every));
}

/* Of more CPUs some look does. */
static void finds_it_from_somewhere(uint32_t idle_one)
{
	uint64_t every[FG_CPUS / 64];
	uint32_t found = 0;

	memset(every, 0xff, sizeof(every));
	begin();
	all.page.cpus_seen = FG_CPUS;
	all.cpus[idle_one].idle = 1;
	for (here = 0; here < FG_CPUS; here++)
		found += fgi_idle_cpu(every);
	CHECK_IS(found, FGI_IDLE_LOOKS);
}

/* Up to eight CPUs are counted, more are estimated; no count is larger than the machine, rounded up to steps. */
static void counts_idle_cpus(void)
{
	begin();
	all.page.cpus_seen = 8;
	all.cpus[2].idle = all.cpus[5].idle = all.cpus[7].idle = 1;
	for (here = 0; here < 16; here++)
		CHECK_IS(fgi_idle_cpus(), 3);
	all.page.cpus_seen = UINT32_MAX; /* what no monitor says */
	for (uint32_t cpu = 0; cpu < FG_CPUS; cpu += 2)
		all.cpus[cpu].idle = all.cpus[cpu + 1].idle = cpu < FG_CPUS / 2;
	for (here = 0; here < FG_CPUS; here++)
		CHECK_IS(fgi_idle_cpus(), FG_CPUS / 2);
}

/* Which CPU a preempted thread was taken from is known, if its number is not among the highest. */
static void notes_it(uint32_t cpu, bool is_known)
{
	const uint32_t name = 4711, life = 0x123456;
	struct fg_thread_record thread = {.domain = 3};

	begin();
	fgi_monitor_attach_all(&all, 3);
	publish_name(&thread, name | FG_RUNNABLE, life, cpu, &all);
	for (uint32_t i = 0; i < 2 * FG_CPUS; i++) {
		enum fgi_whereabouts where = i == cpu ? FGI_PREEMPTED_HERE : FGI_PREEMPTED_ELSEWHERE;

		here = i;
		CHECK_IS(fgi_whereabouts_of(fgi_handle_of(name, life), name | FG_RUNNABLE),
			 is_known ? where : FGI_PREEMPTED_SOMEWHERE);
		CHECK_IS(fgi_preempted_elsewhere(), is_known && i != cpu);
	}
	CHECK_IS(fgi_whereabouts_of(fgi_handle_of(name, life + 1), name | FG_RUNNABLE), FGI_ON_CPU);
	forget_name(&thread, &all);
	CHECK(!fgi_preempted_elsewhere());
	CHECK_IS(fgi_whereabouts_of(fgi_handle_of(name, life), fgi_named_there(fgi_handle_of(name, life))), FGI_ON_CPU);
}

int main(void)
{
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		writes_its_own_line(numbers[i]);
		says_who_had_it_for_a_slice(numbers[i], FGI_SLICE_US, false);
		says_who_had_it_for_a_slice(numbers[i], FGI_SLICE_US + 1, true);
		finds_it_from_somewhere(numbers[i]);
		notes_it(numbers[i], numbers[i] != FG_CPUS - 1);
	}
	for (size_t i = 0; i < sizeof(beyond) / sizeof(*beyond); i++) {
		knows_nothing_beyond(beyond[i]);
		notes_it(beyond[i], false);
	}
	finds_an_idle_cpu(0, 1);
	finds_an_idle_cpu(1, 2);
	finds_an_idle_cpu(0, FGI_IDLE_LOOKS);
	finds_an_idle_cpu(FGI_IDLE_LOOKS - 1, FGI_IDLE_LOOKS);
	finds_an_idle_cpu(102, 104);
	finds_an_idle_cpu(403, 512);
	finds_an_idle_cpu(FG_CPUS - 1, FG_CPUS);
	counts_idle_cpus();
	fgi_monitor_attach(&all.page); /* the page alone */
	here = 0;
	CHECK(!fgi_idle_cpu((uint64_t[FG_CPUS / 64]){1}));
	CHECK_IS(fgi_idle_cpus(), 0);
	CHECK_IS(fgi_slice_published(), 0);
	return 0;
}
