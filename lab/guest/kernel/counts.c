// SPDX-License-Identifier: GPL-2.0-only
/* The counts of counts.h, by virtual CPU, and /proc/flexguard/counts: reading gives their sums, one a line, and what a
 * spin takes; writing sets them to 0. Handlers that interrupt an increment may lose it: these are statistics. */
#include <linux/cache.h>
#include <linux/ktime.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/smp.h>
#include <linux/threads.h>
#include <linux/timex.h>

#include <asm/timex.h>

#include <flexguard_host.h>

#include "counts.h"

#define HELD_MOST 16

static struct {
	struct flexguard_counts sums;
	unsigned int depth;
	struct {
		arch_spinlock_t *lock;
		u64 slice;
	} held[HELD_MOST]; /* the locks that this virtual CPU holds, innermost last */
} cpus[NR_CPUS] ____cacheline_aligned;

static const char *const names[] = {
	"taken",     "waited",         "stalls_holder", "stalls_waiter", "slices_holder", "slices_waiter",
	"overtaken", "overtaken_most", "queued",        "queued_most",   "halts",         "kicks",
	"yields",    "incapable",      "spins",         "spin_cycles",
};
static_assert(ARRAY_SIZE(names) == FLEXGUARD_COUNTERS);

#define COUNTER(field) (offsetof(struct flexguard_counts, field) / sizeof(u64))

struct flexguard_counts *flexguard_counts_here(void)
{
	return &cpus[raw_smp_processor_id()].sums;
}

static u64 cycles(void)
{
	u32 low, high;

	asm volatile("rdtsc" : "=a"(low), "=d"(high));
	return (u64)high << 32 | low;
}

void flexguard_wait_begin(struct waiting *w, u16 before)
{
	struct flexguard_counts *c = flexguard_counts_here();

	c->waited++;
	if (before > TICKETS_MOST)
		before = 0;
	c->queued += before;
	if (before > c->queued_most)
		c->queued_most = before;
	w->slice = flexguard_slice();
	w->begun = cycles();
}

void flexguard_wait_end(struct waiting *w)
{
	struct flexguard_counts *c = flexguard_counts_here();

	c->spin_cycles += cycles() - w->begun;
	c->spins += w->spins;
	if (w->slice != flexguard_slice())
		c->slices_waiter++;
}

void flexguard_count_taken(arch_spinlock_t *lock)
{
	unsigned int cpu = raw_smp_processor_id(), depth = cpus[cpu].depth++;

	cpus[cpu].sums.taken++;
	if (depth >= HELD_MOST)
		return;
	cpus[cpu].held[depth].lock = lock;
	cpus[cpu].held[depth].slice = flexguard_slice();
}

/* Locks need not be released in the opposite order. A handler's locks come and go above those that it interrupts. */
void flexguard_count_dropped(arch_spinlock_t *lock)
{
	unsigned int cpu = raw_smp_processor_id(), depth = cpus[cpu].depth, i;

	for (i = min(depth, HELD_MOST); i-- > 0;) {
		if (cpus[cpu].held[i].lock != lock)
			continue;
		if (cpus[cpu].held[i].slice != flexguard_slice())
			cpus[cpu].sums.slices_holder++;
		for (; i + 1 < min(depth, HELD_MOST); i++)
			cpus[cpu].held[i] = cpus[cpu].held[i + 1];
		break;
	}
	if (depth)
		cpus[cpu].depth = depth - 1;
}

/* What a spin takes, in ps, while nothing interrupts it: the least of some tries. */
static u64 spin_ps(void)
{
	u64 least = U64_MAX;
	int try, i;

	for (try = 0; try < 16; try++) {
		u64 begun = ktime_get_ns();

		for (i = 0; i < 1000; i++)
			cpu_relax();
		least = min(least, ktime_get_ns() - begun);
	}
	return least;
}

int flexguard_counts_show(struct seq_file *m, void *unused)
{
	unsigned int counter, cpu;

	for (counter = 0; counter < FLEXGUARD_COUNTERS; counter++) {
		bool most = counter == COUNTER(queued_most) || counter == COUNTER(overtaken_most);
		u64 sum = 0;

		for (cpu = 0; cpu < NR_CPUS; cpu++) {
			u64 n = READ_ONCE(((u64 *)&cpus[cpu].sums)[counter]);

			sum = most ? max(sum, n) : sum + n;
		}
		seq_printf(m, "%s %llu\n", names[counter], sum);
	}
	seq_printf(m, "spin_ps %llu\n", spin_ps());
	return 0;
}

void flexguard_counts_clear(void)
{
	unsigned int cpu;

	for (cpu = 0; cpu < NR_CPUS; cpu++)
		memset(&cpus[cpu].sums, 0, sizeof(cpus[cpu].sums));
}
