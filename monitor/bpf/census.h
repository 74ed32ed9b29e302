/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* What is registered, and what the records of it take (monitor/src/census.rs). */
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

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct fg_thread_record);
} threads SEC(".maps");

/* Written by the user half. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fg_full_accounts);
} full_accounts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FG_BUDGET_ENTRIES);
	__type(key, __u32);
	__type(value, __s64);
} budget SEC(".maps");

static __always_inline __s64 *budget_of(__u32 entry)
{
	return bpf_map_lookup_elem(&budget, &entry);
}

static __always_inline void add_to_budget(__u32 entry, __s64 number)
{
	__s64 *of = budget_of(entry);

	if (of)
		__sync_fetch_and_add(of, number);
}

/* For records of so many bytes; false: all records together take as much as they may. */
static __always_inline bool spend(__s64 bytes)
{
	__s64 *left = budget_of(FG_BUDGET_LEFT);

	if (!left)
		return false;
	if (__sync_fetch_and_add(left, -bytes) >= bytes)
		return true;
	__sync_fetch_and_add(left, bytes);
	return false;
}

static __always_inline void give_back(__s64 bytes)
{
	add_to_budget(FG_BUDGET_LEFT, bytes);
	add_to_budget(FG_BUDGET_FREED, bytes);
}

/* Has that account as much as one may have? */
static __always_inline bool is_full(__u64 account)
{
	__u32 zero = 0, i;
	struct fg_full_accounts *full = bpf_map_lookup_elem(&full_accounts, &zero);

	if (!full || !READ_ONCE(full->number))
		return false;
	for (i = 0; i < FG_FULL_ACCOUNTS; i++) {
		if (i < full->number && full->account[i] == account)
			return true;
	}
	return false;
}

/* May a child, or a thread, of that process have records of so many bytes? A child that may not is counted. */
static __always_inline bool may_have(const struct fg_process_record *parent, bool child, __s64 bytes)
{
	if (!is_full(parent->account) && spend(bytes))
		return true;
	if (child)
		add_to_budget(FG_BUDGET_BARREN, 1);
	return false;
}

/* Run by the user half over all threads of the machine: whose processes are registered, what they want, and what the
 * records take. */
SEC("iter/task")
int fg_census(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct fg_counted_process counted = {};
	struct fg_process_record *process;

	if (!task || (task->flags & PF_KTHREAD))
		return 0;
	if (bpf_task_storage_get(&threads, task, 0, 0))
		add_to_budget(FG_BUDGET_FOUND, FG_THREAD_BYTES);
	if (task->pid != task->tgid)
		return 0;
	process = bpf_task_storage_get(&processes, task, 0, 0);
	if (!process)
		return 0;
	add_to_budget(FG_BUDGET_FOUND, FG_PROCESS_BYTES);
	if (!process->n_images || process->exec_id != task->self_exec_id)
		return 0;
	counted.account = process->account;
	counted.threads = BPF_CORE_READ(task, signal, nr_threads);
	counted.wants = process->flags;
	bpf_seq_write(ctx->meta->seq, &counted, sizeof(counted));
	return 0;
}

/* Run by the user half over a process that has connected: writes its account. */
SEC("iter/task")
int fg_account(struct bpf_iter__task *ctx)
{
	struct fg_published *all = published();
	struct task_struct *task = ctx->task;
	__u64 account;

	if (!all || !task)
		return 0;
	account = account_of(task, all->page.domain_kind);
	bpf_seq_write(ctx->meta->seq, &account, sizeof(account));
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
