// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* The tracer of `flexguard trace`: who lost its CPU in a critical section, to whom, for how long, and where it was.
 *
 * A program of its own, attached while a tracer runs: the monitor pays nothing for it otherwise. It shares two maps
 * with the monitor, `processes` and `tables`, and its judgement (judge.h), so it does not depend on which of the two
 * programs a switch reaches first. An event is complete, and is written to the ring, when its thread gets a CPU again.
 *
 * The reader looks by itself ten times a second: a wake-up in sched_switch would cost what is measured here.
 */
#include <stdbool.h>

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "judge.h"
#include "kernel_types.h"
#include "monitor.h"
#include "trace.h"

char dual_license[] SEC("license") = "Dual MIT/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fg_trace_control);
} control SEC(".maps");

/* The threads that are preempted now, by their number. Preallocated: sched_switch allocates nothing. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FG_TRACE_THREADS);
	__type(key, __u32);
	__type(value, struct fg_trace_event);
} preempted SEC(".maps");

/* The words on which threads sleep, and those threads, by their number. If there are too many words, the one that was
 * used least recently goes: it is counted anew when it comes back. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, FG_TRACE_SLEEPERS);
	__type(key, struct fg_trace_word);
	__type(value, struct fg_trace_sleepers);
} words SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FG_TRACE_SLEEPERS);
	__type(key, __u32);
	__type(value, struct fg_trace_sleep);
} asleep SEC(".maps");

/* An event is too large for the stack. Under the run-queue lock a CPU fills in one at a time. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fg_trace_event);
} scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, FG_TRACE_RING);
} ring SEC(".maps");

/* The word of the lock that a critical thread holds or is next to get. A holder that says so by a count alone does not
 * say which. `names_owner`: the word does, so that the lock's waiters sleep on it. */
static __always_inline __u64 lock_of(struct task_struct *task, const struct fg_process_record *process,
				     bool *names_owner)
{
	struct fg_thread_block block;
	__u64 tail;
	__u32 i, word;

	for (i = 0; i < FG_MAX_IMAGES; i++) {
		if (i >= process->n_images)
			break;
		if (bpf_probe_read_user(&block, sizeof(block),
					(void *)(thread_pointer(task) + process->images[i].block_offset)))
			continue;
		if (block.pending && block.self && !read_lock_word(&word, block.pending) &&
		    (word & FG_OWNER_MASK) == block.self) {
			*names_owner = true;
			return block.pending;
		}
		if (block.node &&
		    !bpf_probe_read_user(&tail, sizeof(tail), &((const struct fg_queue_node *)block.node)->tail))
			return tail;
	}
	return 0;
}

/* ---- waiters ---------------------------------------------------------------------------------------------------- */

/* The word on which a thread waits that leaves its CPU inside a system call; 0: it is another call. */
static __always_inline __u64 futex_word(struct task_struct *task)
{
	const struct pt_regs *regs = (const struct pt_regs *)bpf_task_pt_regs(task);
	__u32 command;

	if (is_arm64(regs) ? regs->syscallno != NR_FUTEX_ARM64 : regs->orig_ax != NR_FUTEX_X86_64)
		return 0;
	command = (is_arm64(regs) ? regs->regs[1] : regs->si) & FUTEX_COMMAND;
	if (command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET)
		return 0;
	return is_arm64(regs) ? regs->orig_x0 : regs->di;
}

static __always_inline void fall_asleep(struct task_struct *task)
{
	struct fg_trace_sleep sleep = {.word = {.address = futex_word(task), .pid = task->tgid}};
	struct fg_trace_sleepers none = {}, *here;
	__u32 tid = task->pid;

	if (!sleep.word.address)
		return;
	here = bpf_map_lookup_elem(&words, &sleep.word);
	if (!here) {
		none.since_ns = bpf_ktime_get_ns();
		bpf_map_update_elem(&words, &sleep.word, &none, BPF_NOEXIST);
		here = bpf_map_lookup_elem(&words, &sleep.word);
	}
	if (!here)
		return;
	sleep.counted_since_ns = here->since_ns;
	if (!bpf_map_update_elem(&asleep, &tid, &sleep, BPF_NOEXIST))
		__sync_fetch_and_add(&here->number, 1);
}

/* It runs, or has run: a switch-in may go unseen. */
static __always_inline void wake_up(struct task_struct *task)
{
	struct fg_trace_sleepers *there;
	struct fg_trace_sleep *sleep;
	__u32 tid = task->pid;

	if (!task->group_leader->bpf_storage)
		return;
	sleep = bpf_map_lookup_elem(&asleep, &tid);
	if (!sleep)
		return;
	there = bpf_map_lookup_elem(&words, &sleep->word);
	if (there && there->since_ns == sleep->counted_since_ns)
		__sync_fetch_and_add(&there->number, -1);
	bpf_map_delete_elem(&asleep, &tid);
}

/* The lock is the thread's until it runs, so all that wait for it go on waiting. */
static __always_inline __u32 waiters_of(const struct fg_trace_event *event)
{
	struct fg_trace_word word = {.address = event->lock, .pid = event->pid};
	const struct fg_trace_sleepers *there = bpf_map_lookup_elem(&words, &word);

	return there && there->number > 0 ? there->number : 0;
}

/* ---- preemptions ------------------------------------------------------------------------------------------------ */

static __always_inline void drop(__u32 tid, struct fg_trace_control *state)
{
	if (!bpf_map_delete_elem(&preempted, &tid))
		__sync_fetch_and_add(&state->waiting, -1);
}

/* `task` has a CPU; `seen`: since this switch. */
static __always_inline void end(struct task_struct *task, bool seen, struct fg_trace_control *state)
{
	__u32 tid = task->pid;
	struct fg_trace_event *event;

	if (!*(volatile __u32 *)&state->waiting || !tid)
		return;
	event = bpf_map_lookup_elem(&preempted, &tid);
	if (!event)
		return;
	event->until_ns = bpf_ktime_get_ns();
	if (event->waiters != FG_TRACE_UNKNOWN)
		event->waiters = waiters_of(event);
	if (!seen || bpf_ringbuf_output(&ring, event, sizeof(*event), BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&state->lost, 1);
	drop(tid, state);
}

/* `prev`, of a process that is traced, is runnable. */
static __always_inline void begin(void *ctx, struct task_struct *prev, struct task_struct *next,
				  const struct fg_process_record *process, struct fg_trace_control *state)
{
	struct fg_cpu_counts unused = {};
	struct fg_trace_event *event;
	__u32 zero = 0, name = 0, life = 0, tid = prev->pid;
	bool names_owner = false;
	enum fg_kind kind;
	long bytes;

	kind = judge(prev, process, &unused, &name, &life);
	event = bpf_map_lookup_elem(&scratch, &zero);
	if (kind == FG_KIND_NONE || !event)
		return;
	event->since_ns = bpf_ktime_get_ns();
	event->lock = lock_of(prev, process, &names_owner);
	event->waiters = names_owner ? 0 : FG_TRACE_UNKNOWN;
	event->pid = prev->tgid;
	event->tid = tid;
	event->kind = kind;
	event->cpu = bpf_get_smp_processor_id();
	event->by_pid = next->tgid;
	event->by_tid = next->pid;
	bpf_core_read_str(event->name, sizeof(event->name), &prev->comm);
	bpf_core_read_str(event->by_name, sizeof(event->by_name), &next->comm);
	bytes = bpf_get_stack(ctx, event->stack, sizeof(event->stack), BPF_F_USER_STACK);
	event->frames = bytes > 0 ? bytes / sizeof(event->stack[0]) : 0;
	if (bpf_map_update_elem(&preempted, &tid, event, BPF_NOEXIST))
		__sync_fetch_and_add(&state->lost, 1);
	else
		__sync_fetch_and_add(&state->waiting, 1);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(fg_trace_switch, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state)
{
	const struct fg_process_record *process = judged_process(prev);
	struct fg_trace_control *state;
	__u32 zero = 0;

	state = bpf_map_lookup_elem(&control, &zero);
	if (!state)
		return 0;
	if (process && state->only_pid && state->only_pid != (__u32)prev->tgid)
		process = 0;
	wake_up(next);
	wake_up(prev);
	if (process && !still_runnable(prev, preempt, prev_state)) {
		fall_asleep(prev); /* first: it may be a waiter of next's */
		process = 0;
	}
	end(next, true, state);
	end(prev, false, state);
	if (process)
		begin(ctx, prev, next, process, state);
	return 0;
}
