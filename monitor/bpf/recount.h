/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The threads that are counted, counted again: a thread that has died, and of which neither the last switch-in nor the
 * switch-out after it was seen, would stay in the counters for ever (monitor/src/heart.rs). */
#ifndef FLEXGUARD_RECOUNT_H
#define FLEXGUARD_RECOUNT_H

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "census.h"
#include "domains.h"
#include "monitor.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FG_DOMAINS);
	__type(key, __u32);
	__type(value, struct fg_recounted);
} recounted SEC(".maps");

static __always_inline void find_counted(__u32 domain)
{
	struct fg_recounted *of = bpf_map_lookup_elem(&recounted, &domain);

	if (of)
		__sync_fetch_and_add(&of->threads, 1);
}

/* Run by the user half over all threads of the machine. Entry 0 is for all. */
SEC("iter/task")
int fg_recount(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct fg_thread_record *thread;
	__u32 kind;

	if (!task || (task->flags & PF_KTHREAD))
		return 0;
	thread = bpf_task_storage_get(&threads, task, 0, 0);
	kind = thread ? READ_ONCE(thread->counted_as) : FG_KIND_NONE;
	if (kind == FG_KIND_NONE || (kind & FG_AGED))
		return 0;
	find_counted(0);
	if (thread->domain > 0 && thread->domain < FG_DOMAINS)
		find_counted(thread->domain);
	return 0;
}

/* By how much the counter is above what was found: as much the time before, too, it is the dead. */
static __always_inline __u32 surplus(__u32 counter, struct fg_recounted *of, bool quiet)
{
	__u32 more = quiet && counter > of->threads ? counter - of->threads : 0;
	__u32 before = of->surplus;

	of->threads = 0;
	of->surplus = more;
	return more == before ? more : 0;
}

/* Takes the dead of a domain out of its counter; returns how many. Not static: the verifier looks at it once. */
__noinline __u32 fg_settle_domain(__u32 domain, __u32 quiet)
{
	struct fg_published *all = published();
	struct fg_recounted *of = bpf_map_lookup_elem(&recounted, &domain);
	struct fg_domain *its;
	__u32 dead;

	if (!all || !of)
		return 0;
	its = domain_at(all, domain);
	dead = surplus(its ? its->num_preempted_cs : all->page.num_preempted_cs, of, quiet);
	if (!dead)
		return 0;
	of->surplus = 0;
	if (its)
		__sync_fetch_and_add(&its->num_preempted_cs, -dead);
	else
		__sync_fetch_and_add(&all->page.num_preempted_cs, -dead);
	return dead;
}

/* Run by the user half after fg_recount. `quiet`: meanwhile no thread has joined a counter or left one. */
SEC("syscall")
int fg_settle(struct fg_settle_args *args)
{
	__u32 i;

	args->dead = fg_settle_domain(0, args->quiet);
	for (i = 1; i < FG_DOMAINS; i++)
		fg_settle_domain(i, args->quiet);
	return 0;
}

#endif
