/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* What each CPU publishes of itself, in a line of its own: whether it idles, how long the process before had it, and
 * whether that one waits. */
#ifndef FLEXGUARD_CPUS_H
#define FLEXGUARD_CPUS_H

#include <stdbool.h>

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "kernel_types.h"
#include "monitor.h"

/* A process that waits is taken to have been moved to another CPU, or not to be allowed to run, after so long. */
#define FG_WAITED_NS 50000000u

/* Null: its number is higher than those that are published. */
static __always_inline struct fg_cpu *line_of(__u64 cpu, struct fg_published *all)
{
	if (cpu >= FG_CPUS)
		return 0;
	barrier_var(cpu); /* or the compiler bounds another register than the verifier sees used */
	return &all->cpus[cpu % FG_CPUS];
}

static __always_inline void publish_nobody_waits(struct fg_cpu *line, struct fg_cpu_counts *count)
{
	line->stay &= FG_STAY_US;
	count->said_to_wait = false;
}

/* `next` begins to run. Kernel threads and idleness do not end a process's stay. The time is that of the CPU's run
 * queue, which the scheduler has just read for `next`: to read a clock is a call, for every bystander. */
static __always_inline void publish_process_switch(struct task_struct *next, struct fg_cpu *line,
						   struct fg_cpu_counts *count)
{
	__u64 now = next->se.exec_start, us;

	if (next->flags & PF_KTHREAD)
		return;
	if (count->process == (__u32)next->tgid) {
		if (count->said_to_wait && now - count->process_since_ns > FG_WAITED_NS)
			publish_nobody_waits(line, count);
		return;
	}
	us = (now - count->process_since_ns) / 1000;
	line->stay = (us < FG_STAY_US ? us : FG_STAY_US) | (count->process_waits ? FG_STAY_WAITS : 0);
	line->process_switches++;
	count->said_to_wait = count->process_waits;
	count->process_waits = false;
	count->process = (__u32)next->tgid;
	count->process_since_ns = now;
}

/* What this CPU does from now on. Its idle thread has the number 0. `runnable`: prev did not go to sleep. While a CPU
 * idles nobody waits for it; a thread of SCHED_IDLE does not count. */
static __always_inline void publish_cpu(struct task_struct *prev, struct task_struct *next, bool runnable, __u32 cpu,
					struct fg_published *all, struct fg_cpu_counts *count)
{
	struct fg_cpu *line = line_of(cpu, all);

	if (!line)
		return;
	if (all->page.cpus_seen <= cpu) /* of two CPUs that do so at once the higher one's next switch is right */
		all->page.cpus_seen = cpu + 1;
	if (!prev->pid || !next->pid)
		line->idle = !next->pid;
	if (prev->pid && count->process == (__u32)prev->tgid)
		count->process_waits = runnable && prev->policy != SCHED_IDLE;
	if (next->pid) {
		publish_process_switch(next, line, count);
	} else {
		count->process_waits = false;
		if (count->said_to_wait)
			publish_nobody_waits(line, count);
	}
}

/* A CPU that is taken off line makes no further switch: the last one was to its idle thread. */
static __always_inline void publish_off_line(__u32 cpu, struct fg_published *all)
{
	struct fg_cpu *line = line_of(cpu, all);

	if (line)
		line->idle = 0;
}

#endif
