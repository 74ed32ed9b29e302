/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* Is a thread that is switched out critical, and does it lose the CPU against its will? The monitor and the tracer
 * (trace.bpf.c) ask in the same words. */
#ifndef FLEXGUARD_JUDGE_H
#define FLEXGUARD_JUDGE_H

#include <stdbool.h>

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "kernel_types.h"
#include "monitor.h"

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct fg_process_record);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FG_TABLES);
	__type(key, __u32);
	__type(value, struct fg_table);
} tables SEC(".maps");

/* Kernels before 6.16 report a stale nonzero prev_state when a signal turned the sleep into a no-op. The run queue
 * knows better: on it and not merely waiting to be dequeued means runnable. */
static __always_inline bool still_runnable(struct task_struct *prev, bool preempt, unsigned int prev_state)
{
	if (preempt || prev_state == 0)
		return true;
	if (!prev->on_rq)
		return false;
	return !(bpf_core_field_exists(prev->se.sched_delayed) && prev->se.sched_delayed);
}

/* arm64 ignores the top byte of an address, and compares it with the memory's tag where the program has asked for that
 * (MTE). Linux 6.12 reads nothing through bpf_probe_read_user if it is set. Where it is not, tagged memory of a program
 * that has its tags checked at once cannot be read. A string can: its address may have a tag. So then the word comes
 * byte by byte, without its last, in which the owner's thread id has no bits. */
#define FG_ADDRESS_TAG (0xffull << 56)

static __always_inline long read_tagged_word(__u32 *word, __u64 address)
{
	__u8 byte[2];
	__u32 i;

	*word = 0;
	for (i = 0; i < 3; i++) {
		if (bpf_probe_read_user_str(byte, sizeof(byte), (void *)(address + i)) < 0)
			return -1;
		*word |= (__u32)byte[0] << (8 * i);
	}
	return 0;
}

/* The word of a lock that the program has put anywhere. */
static __always_inline long read_lock_word(__u32 *word, __u64 address)
{
	__u64 tag = bpf_core_field_exists(struct task_struct, thread.uw.tp_value) ? address & FG_ADDRESS_TAG : 0;
	long failed = bpf_probe_read_user(word, sizeof(*word), (void *)(address - tag));

	return failed && tag ? read_tagged_word(word, address) : failed;
}

/* The comment above struct fg_thread_block, in code. The certain evidence comes first; a next waiter that holds as
 * well is a holder. `name` is what lock words call the thread, and `life` which thread of that name it is. */
static __always_inline enum fg_kind judge_block(__u64 address, struct fg_cpu_counts *count, __u32 *name, __u32 *life)
{
	struct fg_thread_block block;
	__u32 word;

	if (bpf_probe_read_user(&block, __builtin_offsetof(struct fg_thread_block, parks), (void *)address)) {
		count->unreadable++;
		return FG_KIND_NONE;
	}
	*name = block.self;
	*life = block.life;
	if (block.held > 0)
		return FG_KIND_HOLDER;
	if (block.pending) {
		if (read_lock_word(&word, block.pending))
			count->unreadable++;
		else if (block.self && (word & FG_OWNER_MASK) == block.self)
			return FG_KIND_HOLDER;
	}
	if (block.node) {
		const struct fg_queue_node *node = (const struct fg_queue_node *)block.node;

		if (bpf_probe_read_user(&word, sizeof(word), &node->state))
			count->unreadable++;
		else if (word == FG_NODE_GRANTED)
			return FG_KIND_NEXT_WAITER;
	}
	return FG_KIND_NONE;
}

/* Where a thread was in user mode: the registers that a window may ask for, by enum fg_reg. */
struct fg_user_registers {
	__u64 ip;
	__u64 value[FG_REG_COUNT];
};

static __always_inline bool window_holds(const struct fg_window *window, const struct fg_user_registers *at)
{
	__u32 reg = window->reg;

	if (reg == FG_REG_NONE)
		return true;
	return ((reg < FG_REG_COUNT ? at->value[reg] : 0) & window->mask) == window->value;
}

/* Not static: the verifier follows a static function on each path that calls it, which takes it 80 ms of a loop of
 * FG_MAX_WINDOWS. */
__noinline bool fg_search_windows(const struct fg_table *table, const struct fg_user_registers *at, __u64 base)
{
	__u64 ip;
	__u32 i;

	if (!table || !at)
		return false;
	ip = at->ip - base;
	for (i = 0; i < FG_MAX_WINDOWS; i++) {
		const struct fg_window *window = &table->windows[i];

		if (i >= table->n_windows)
			break;
		if (ip > window->begin && ip <= window->end && window_holds(window, at))
			return true;
	}
	return false;
}

/* The object is the same for both architectures: which fields the kernel has says on which it runs. */
static __always_inline bool is_arm64(const struct pt_regs *regs)
{
	return bpf_core_field_exists(regs->pc);
}

static __always_inline __u64 thread_pointer(const struct task_struct *task)
{
	if (bpf_core_field_exists(task->thread.uw.tp_value))
		return task->thread.uw.tp_value;
	return task->thread.fsbase;
}

static __always_inline __u64 instruction_pointer(const struct pt_regs *regs)
{
	return is_arm64(regs) ? regs->pc : regs->ip;
}

static __always_inline void read_registers_arm64(const struct pt_regs *regs, struct fg_user_registers *at)
{
	at->value[FG_REG_NONE] = 0;
	at->value[FG_REG_ARM64_X9] = regs->regs[9];
	at->value[FG_REG_ARM64_X10] = regs->regs[10];
	at->value[3] = regs->regs[11];
	at->value[4] = regs->regs[12];
	at->value[5] = regs->regs[13];
	at->value[6] = regs->regs[14];
	at->value[7] = regs->regs[15];
}

static __always_inline void read_registers(const struct pt_regs *regs, struct fg_user_registers *at)
{
	if (is_arm64(regs)) {
		read_registers_arm64(regs, at);
		return;
	}
	at->value[FG_REG_NONE] = 0;
	at->value[FG_REG_AX] = regs->ax;
	at->value[FG_REG_BX] = regs->bx;
	at->value[FG_REG_CX] = regs->cx;
	at->value[FG_REG_DX] = regs->dx;
	at->value[FG_REG_SI] = regs->si;
	at->value[FG_REG_DI] = regs->di;
	at->value[FG_REG_FLAGS] = regs->flags;
}

/* If prev was in the kernel, the registers are still the ones it entered with. */
static __always_inline bool in_window(struct task_struct *task, const struct fg_process_record *process)
{
	const struct pt_regs *regs = (const struct pt_regs *)bpf_task_pt_regs(task);
	struct fg_user_registers at;
	__u32 i;

	at.ip = instruction_pointer(regs);
	for (i = 0; i < FG_MAX_IMAGES; i++) {
		const struct fg_image *image = &process->images[i];
		const struct fg_table *table;
		__u32 number = image->table;

		if (i >= process->n_images)
			break;
		if (!number)
			continue;
		table = bpf_map_lookup_elem(&tables, &number);
		if (!table || at.ip <= image->base || at.ip - image->base > table->span)
			continue;
		read_registers(regs, &at);
		if (fg_search_windows(table, &at, image->base))
			return true;
	}
	return false;
}

static __always_inline enum fg_kind judge(struct task_struct *task, const struct fg_process_record *process,
					  struct fg_cpu_counts *count, __u32 *name, __u32 *life)
{
	enum fg_kind kind = FG_KIND_NONE;
	__u64 tp = thread_pointer(task);
	__u32 i;

	for (i = 0; i < FG_MAX_IMAGES; i++) {
		enum fg_kind seen;

		if (i >= process->n_images)
			break;
		seen = judge_block(tp + process->images[i].block_offset, count, name, life);
		if (seen == FG_KIND_HOLDER)
			return seen;
		if (seen != FG_KIND_NONE)
			kind = seen;
	}
	return in_window(task, process) ? FG_KIND_HOLDER : kind;
}

/* Its process may have registered, and it runs user code again. */
static __always_inline bool may_be_judged(struct task_struct *task)
{
	if (task->flags & (PF_KTHREAD | PF_EXITING | PF_IO_WORKER | PF_USER_WORKER))
		return false;
	return task->group_leader->bpf_storage; /* null is the usual case, for the price of a load instead of a call */
}

/* The record is of the program that the thread runs. */
static __always_inline bool judges(const struct fg_process_record *process, struct task_struct *task)
{
	return process && process->n_images && process->exec_id == task->group_leader->self_exec_id;
}

/* What a thread of this process is judged by; null: its process has not registered, or it never runs user code
 * again. */
static __always_inline struct fg_process_record *judged_process(struct task_struct *task)
{
	struct fg_process_record *process = 0;

	if (may_be_judged(task))
		process = bpf_task_storage_get(&processes, task->group_leader, 0, 0);
	return judges(process, task) ? process : 0;
}

#endif
