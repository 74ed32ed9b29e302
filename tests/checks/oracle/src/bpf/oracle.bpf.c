// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* The detection oracle, kernel half: a witness that judges nothing.
 *
 * Attached to sched_switch after the monitor under test, so that it runs after it, it records for every switch from or
 * to a worker what the locks' memory looks like at this instant and what the monitor has just decided. The user half
 * derives the truth from the former and compares it with the latter.
 *
 * From the monitor it takes its output alone (two maps and the layout of one record). It finds the workers by tid,
 * tells runnable from asleep by the task's state, and reads none of what the monitor judges by, except for statistics.
 */
#include <stdbool.h>

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "monitor.h"
#include "oracle.h"

char dual_license[] SEC("license") = "Dual MIT/GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct upid {
	int nr;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct task_struct {
	unsigned int __state;
	struct pid *thread_pid;
	struct task_struct *group_leader;
};

struct pt_regs {
	/* x86-64 */
	unsigned long ip;
	unsigned long orig_ax; /* of a system call its number, otherwise negative */
	/* arm64 */
	__u64 pc;
	int syscallno; /* the same */
};

#pragma clang attribute pop

/* The monitor's maps: replaced by its own before this object is loaded. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct fg_thread_record);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__uint(value_size, sizeof(struct fg_published));
} shared SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, int);
	__type(value, struct oracle_worker);
} workers SEC(".maps");

/* Space for a burst of the victim: the reader may be off its CPU for as long as the machine likes. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 << 20);
} events SEC(".maps");

const volatile struct oracle_config config;
struct oracle_counts seen; /* all workers share a CPU, or move to another together, and interrupts are off here */

/* The tid as the thread itself sees it. */
static __always_inline int tid_of(struct task_struct *task)
{
	struct pid *pid = task->thread_pid;
	struct upid upid = {};

	if (!pid)
		return 0;
	bpf_core_read(&upid, sizeof(upid), &pid->numbers[pid->level]);
	return upid.nr;
}

/* By value: tested together, two pointers would become one OR, which the verifier forbids. */
static __always_inline struct oracle_worker worker(struct task_struct *task)
{
	struct oracle_worker nobody = {.index = ORACLE_NOBODY}, *found;
	int tid = tid_of(task);

	if (tid_of(task->group_leader) != config.tgid)
		return nobody;
	found = bpf_map_lookup_elem(&workers, &tid);
	return found ? *found : nobody;
}

static __always_inline void read_user(struct oracle_event *event, void *to, __u32 size, __u64 from)
{
	if (bpf_probe_read_user(to, size, (void *)from))
		event->flags |= ORACLE_UNREADABLE;
}

static __always_inline void read_locks(struct oracle_event *event)
{
	__u32 i;

	for (i = 0; i < ORACLE_LOCKS; i++)
		read_user(event, event->locks[i], sizeof(event->locks[i]), config.lock_addresses[i]);
	for (i = 0; i < ORACLE_NODES; i++) {
		if (i >= config.nodes)
			break;
		read_user(event, &event->nodes[i], sizeof(event->nodes[i]),
			  config.nodes_address + i * sizeof(struct fg_queue_node));
	}
}

static __always_inline void read_verdict(struct oracle_event *event, struct task_struct *prev)
{
	struct fg_thread_record *record = bpf_task_storage_get(&threads, prev, 0, 0);

	if (record)
		event->verdict = record->counted_as;
	else
		event->flags |= ORACLE_NO_VERDICT;
}

static __always_inline void read_block(struct oracle_event *event, __u64 address)
{
	struct fg_thread_block block = {};

	read_user(event, &block, __builtin_offsetof(struct fg_thread_block, spins), address);
	event->held = block.held;
	event->node = block.node;
	event->pending = block.pending;
	if (block.node)
		read_user(event, &event->own_state, sizeof(event->own_state),
			  block.node + __builtin_offsetof(struct fg_queue_node, state));
}

static __always_inline void testify(struct oracle_event *event, struct task_struct *prev, bool preempt,
				    struct oracle_worker *from)
{
	const struct pt_regs *regs = (const struct pt_regs *)bpf_task_pt_regs(prev);

	event->prev = from->index;
	event->ip = bpf_core_field_exists(regs->pc) ? regs->pc : regs->ip;
	/* A sleeper has set its state before it called the scheduler; a preempted thread may have, too. */
	if (preempt || prev->__state == 0) {
		event->flags |= ORACLE_RUNNABLE;
		if (bpf_core_field_exists(regs->pc) ? regs->syscallno < 0 : (long)regs->orig_ax < 0)
			event->flags |= ORACLE_FORCED;
	}
	read_locks(event);
	read_verdict(event, prev);
	read_block(event, from->block);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(oracle_sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct oracle_worker from = worker(prev), to = worker(next);
	struct oracle_event *event;
	struct fg_shared *page;
	__u32 zero = 0;

	if (from.index == ORACLE_NOBODY && to.index == ORACLE_NOBODY)
		return 0;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		seen.lost++;
		return 0;
	}
	__builtin_memset(event, 0, sizeof(*event));
	event->sequence = seen.events++;
	event->at_ns = bpf_ktime_get_ns();
	event->cpu = bpf_get_smp_processor_id();
	event->prev = ORACLE_NOBODY;
	event->next = to.index;
	page = bpf_map_lookup_elem(&shared, &zero);
	if (page)
		event->counter = page->num_preempted_cs;
	if (from.index != ORACLE_NOBODY)
		testify(event, prev, preempt, &from);
	/* No wake-up: the reader comes by itself. Waking it from here would want a run-queue lock. */
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}
