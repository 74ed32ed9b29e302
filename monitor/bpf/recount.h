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

static __always_inline __u32 *counter_of(struct fg_published *all, __u32 domain)
{
	struct fg_domain *its = domain_at(all, domain);

	return its ? &its->num_preempted_cs : &all->page.num_preempted_cs;
}

/* By how much the counter was above what was found: as much the time before, too, it is the dead. */
static __always_inline __u32 surplus(struct fg_recounted *of, bool quiet)
{
	__u32 more = quiet && of->counter > of->threads ? of->counter - of->threads : 0;
	__u32 before = of->surplus;

	of->surplus = more;
	return more == before ? more : 0;
}

/* Takes the dead of a domain out of its counter; returns how many. Not static: the verifier looks at it once. */
__noinline __u32 fg_settle_domain(__u32 domain, __u32 quiet)
{
	struct fg_published *all = published();
	struct fg_recounted *of = bpf_map_lookup_elem(&recounted, &domain);
	__u32 dead;

	if (!all || !of)
		return 0;
	dead = surplus(of, quiet);
	if (!dead)
		return 0;
	of->surplus = 0;
	__sync_fetch_and_add(counter_of(all, domain), -dead);
	return dead;
}

/* Before the threads are looked at: who joins the counter after that is no dead. */
__noinline __u32 fg_note_counter(__u32 domain)
{
	struct fg_published *all = published();
	struct fg_recounted *of = bpf_map_lookup_elem(&recounted, &domain);

	if (!all || !of)
		return 0;
	of->counter = *counter_of(all, domain);
	of->threads = 0;
	return of->counter;
}

/* Run by the user half before fg_recount, and after it. `quiet`: since before the first run no thread has joined a
 * counter or left one. */
SEC("syscall")
int fg_settle(struct fg_settle_args *args)
{
	struct fg_recounted *of;
	__u32 i, dead;

	args->dead = args->again = 0;
	for (i = 0; i < FG_DOMAINS; i++) {
		__u32 domain = i;

		if (args->begins) {
			fg_note_counter(domain);
			continue;
		}
		dead = fg_settle_domain(domain, args->quiet);
		if (!domain)
			args->dead = dead;
		of = bpf_map_lookup_elem(&recounted, &domain);
		if (of && of->surplus)
			args->again++;
	}
	return 0;
}

#endif
