/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* How many processes of a user are registered, and whether any are (monitor/src/census.rs). */
#ifndef FLEXGUARD_CENSUS_H
#define FLEXGUARD_CENSUS_H

#include <stdbool.h>

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "domains.h"
#include "judge.h"
#include "kernel_types.h"
#include "monitor.h"

/* Written by the user half. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fg_full_users);
} full_users SEC(".maps");

/* Forks that inherited no registration, for that. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} barren_forks SEC(".maps");

/* Has its user as many registered processes as one may have? Then the fork is counted as one without. */
static __always_inline bool is_barren(struct task_struct *child)
{
	__u32 zero = 0, uid, i;
	struct fg_full_users *full = bpf_map_lookup_elem(&full_users, &zero);
	__u64 *barren = bpf_map_lookup_elem(&barren_forks, &zero);

	if (!full || !barren || !READ_ONCE(full->number))
		return false;
	uid = BPF_CORE_READ(child, real_cred, uid.val);
	for (i = 0; i < FG_FULL_USERS; i++) {
		if (i < full->number && full->uid[i] == uid) {
			__sync_fetch_and_add(barren, 1);
			return true;
		}
	}
	return false;
}

/* Run by the user half over all threads of the machine: whose processes are registered, and what they want. */
SEC("iter/task")
int fg_census(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct fg_counted_process counted = {};
	struct fg_process_record *process;

	if (!task || (task->flags & PF_KTHREAD) || task->pid != task->tgid)
		return 0;
	process = bpf_task_storage_get(&processes, task, 0, 0);
	if (!process || !process->n_images || process->exec_id != task->self_exec_id)
		return 0;
	counted.uid = BPF_CORE_READ(task, real_cred, uid.val);
	counted.wants = process->flags;
	bpf_seq_write(ctx->meta->seq, &counted, sizeof(counted));
	return 0;
}

/* Run by the user half when fg_census has found no process that is registered, or none that wants slices. While it ran
 * no process was registered and none inherited a registration, so none is in the making. */
SEC("syscall")
int fg_rest(struct fg_rest_args *args)
{
	struct fg_published *all = published();
	struct fg_shared *page = &all->page;

	if (!all)
		return 1;
	if (!args->slices)
		page->slices_wanted = 0;
	if (!args->any && !page->num_preempted_cs && !page->named)
		page->any_process = 0;
	return 0;
}

#endif
