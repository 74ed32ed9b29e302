// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* The sampler of `flexguard profile --spins`: where the threads of a program spend CPU time, and whether another thread
 * of the program was runnable and off its CPU meanwhile.
 *
 * The program is a process and those that come of it. For each of its threads the sampler knows whether it runs, waits
 * for a CPU, or sleeps: from switches and wake-ups, and at the start from a look at all threads. A record is made under
 * the run-queue lock or by that look, which leaves records alone that are there. So a thread's record is right as soon
 * as it exists. The time is taken by the software event cpu-clock, which needs no hardware counter.
 *
 * It shares nothing with the monitor, and needs none. */
#include <stdbool.h>

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "judge.h"
#include "kernel_types.h"
#include "spins.h"

char dual_license[] SEC("license") = "Dual MIT/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fg_spin_control);
} control SEC(".maps");

/* The program's processes. Preallocated, as the next: sched_switch allocates nothing. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FG_SPIN_PROCESSES);
	__type(key, __u32);
	__type(value, __u32);
} members SEC(".maps");

/* The program's threads. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FG_SPIN_THREADS);
	__type(key, __u32);
	__type(value, struct fg_spin_thread);
} states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, FG_SPIN_RING);
} ring SEC(".maps");

static __always_inline struct fg_spin_control *the_control(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&control, &zero);
}

static __always_inline bool is_member(struct task_struct *task)
{
	__u32 pid = task->tgid;

	return !(task->flags & PF_KTHREAD) && bpf_map_lookup_elem(&members, &pid);
}

static __always_inline void add_member(__u32 pid, struct fg_spin_control *all)
{
	__u32 one = 1;

	if (bpf_map_update_elem(&members, &pid, &one, BPF_ANY))
		__sync_fetch_and_add(&all->forgotten, 1);
}

/* ---- what each thread does -------------------------------------------------------------------------------------- */

static __always_inline void count(__u32 state, long by, struct fg_spin_control *all)
{
	if (state == FG_SPIN_WAITS)
		__sync_fetch_and_add(&all->waiting, by);
}

/* The state of a thread that is seen for the first time; false: it has one. */
static __always_inline bool begin(struct task_struct *task, __u32 state, struct fg_spin_control *all)
{
	__u64 cpu_ns = task->se.sum_exec_runtime;
	struct fg_spin_thread thread = {.state = state, .since = bpf_ktime_get_ns(), .cpu_ns = cpu_ns, .added = cpu_ns};
	__u32 tid = task->pid;

	if (bpf_map_update_elem(&states, &tid, &thread, BPF_NOEXIST))
		return false;
	count(state, 1, all);
	return true;
}

/* Adds what the thread has had since the last time. Less, if that time counted what a host had taken. */
static __always_inline void add(struct fg_spin_thread *thread, __u64 cpu_ns, struct fg_spin_control *all)
{
	__sync_fetch_and_add(&all->cpu_ns, (__s64)(cpu_ns - thread->added));
	thread->added = cpu_ns;
}

/* The thread comes to its CPU, leaves it, or is woken. The scheduler has counted its CPU time until now. */
static __always_inline void change(struct task_struct *task, __u32 state, struct fg_spin_control *all)
{
	__u32 tid = task->pid;
	struct fg_spin_thread *thread = bpf_map_lookup_elem(&states, &tid);
	__u32 before;

	if (!thread) {
		if (begin(task, state, all))
			return;
		thread = bpf_map_lookup_elem(&states, &tid);
	}
	if (!thread) {
		__sync_fetch_and_add(&all->forgotten, 1);
		return;
	}
	before = __sync_lock_test_and_set(&thread->state, state);
	count(before, -1, all);
	count(state, 1, all);
	add(thread, task->se.sum_exec_runtime, all);
	if (state == FG_SPIN_RUNS) {
		thread->since = bpf_ktime_get_ns();
		thread->cpu_ns = thread->added;
	}
}

static __always_inline void end(struct task_struct *task, struct fg_spin_control *all)
{
	__u32 tid = task->pid;

	change(task, FG_SPIN_ASLEEP, all);
	bpf_map_delete_elem(&states, &tid);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(fg_spin_switch, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state)
{
	struct fg_spin_control *all = the_control();

	if (!all)
		return 0;
	if (is_member(next))
		change(next, FG_SPIN_RUNS, all);
	if (!is_member(prev))
		return 0;
	if (prev->flags & PF_EXITING)
		end(prev, all);
	else
		change(prev, still_runnable(prev, preempt, prev_state) ? FG_SPIN_WAITS : FG_SPIN_ASLEEP, all);
	return 0;
}

/* A thread that is woken before it has left its CPU runs on. */
static __always_inline int woken(struct task_struct *task)
{
	struct fg_spin_control *all = the_control();

	if (all && is_member(task) && !task->on_cpu)
		change(task, FG_SPIN_WAITS, all);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(fg_spin_wakeup, struct task_struct *task)
{
	return woken(task);
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(fg_spin_wakeup_new, struct task_struct *task)
{
	return woken(task);
}

/* Before the child runs. A new thread is of a process that is known. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(fg_spin_fork, struct task_struct *parent, struct task_struct *child)
{
	struct fg_spin_control *all = the_control();
	bool is_new = child->tgid != parent->tgid;

	if (all && is_new && ((__u32)parent->tgid == all->root || is_member(parent)))
		add_member(child->tgid, all);
	return 0;
}

/* The number of a process is used again. The thread may leave its CPU once more, and is in no map then. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(fg_spin_exit, struct task_struct *task)
{
	struct fg_spin_control *all = the_control();
	__u32 pid = task->tgid;

	if (!all || !is_member(task))
		return 0;
	end(task, all);
	if (task->signal->live.counter == 0)
		bpf_map_delete_elem(&members, &pid);
	return 0;
}

/* ---- the look at all threads, at the start ---------------------------------------------------------------------- */

static __always_inline bool comes_of(struct task_struct *task, const struct fg_spin_control *all)
{
	__u32 pid = task->tgid;
	int i;

	if (pid == all->root)
		return !all->without;
	for (i = 0; i < FG_SPIN_ANCESTORS; i++) {
		task = BPF_CORE_READ(task, real_parent);
		pid = BPF_CORE_READ(task, tgid);
		if (pid <= 1 || pid == all->root)
			break;
	}
	return pid == all->root;
}

SEC("iter/task")
int fg_spin_look(struct bpf_iter__task *ctx)
{
	struct fg_spin_control *all = the_control();
	struct task_struct *task = ctx->task;
	__u32 state = FG_SPIN_ASLEEP;

	if (!all)
		return 0;
	if (!task) { /* the call after the last one */
		all->is_known = 1;
		return 0;
	}
	if (task->flags & (PF_KTHREAD | PF_EXITING))
		return 0;
	if (!is_member(task)) {
		if (!comes_of(task, all))
			return 0;
		add_member(task->tgid, all);
	}
	if (task->on_cpu)
		state = FG_SPIN_RUNS;
	else if (task->on_rq && !(bpf_core_field_exists(task->se.sched_delayed) && task->se.sched_delayed))
		state = FG_SPIN_WAITS;
	begin(task, state, all);
	return 0;
}

/* ---- samples ---------------------------------------------------------------------------------------------------- */

static __always_inline __u64 stack_pointer(const struct pt_regs *regs)
{
	return is_arm64(regs) ? 0 : regs->sp;
}

/* What called a function that puts nothing on its stack; arm64 has it in a register. */
static __always_inline __u64 caller_of(const struct pt_regs *regs)
{
	__u64 caller = 0;

	if (is_arm64(regs))
		return regs->regs[30];
	if (bpf_probe_read_user(&caller, sizeof(caller), (void *)stack_pointer(regs)))
		return 0;
	return caller;
}

/* The highest half of the addresses is the kernel's. */
static __always_inline __u32 system_call(const struct pt_regs *interrupted, const struct pt_regs *regs)
{
	if (!(instruction_pointer(interrupted) >> 63))
		return FG_SPIN_USER;
	return is_arm64(regs) ? (__u32)regs->syscallno : (__u32)regs->orig_ax;
}

/* Of the thread that runs here. The scheduler counts it when the thread leaves its CPU, and at each tick; what it has
 * had since is the time since then, of which a host may have taken a part. */
static __always_inline __u64 cpu_time(struct task_struct *task, struct fg_spin_control *all)
{
	__u32 tid = task->pid;
	struct fg_spin_thread *thread = bpf_map_lookup_elem(&states, &tid);
	__u64 cpu_ns = task->se.sum_exec_runtime, until_now;

	if (!thread)
		return cpu_ns;
	until_now = thread->cpu_ns + (bpf_ktime_get_ns() - thread->since);
	cpu_ns = until_now < cpu_ns + FG_SPIN_TICK_NS ? until_now : cpu_ns + FG_SPIN_TICK_NS;
	add(thread, cpu_ns, all);
	return cpu_ns;
}

SEC("perf_event")
int fg_spin_sample(void *context)
{
	const struct pt_regs *interrupted = context; /* the first member of bpf_perf_event_data */
	struct task_struct *task = bpf_get_current_task_btf();
	struct fg_spin_control *all = the_control();
	struct fg_spin_sample sample = {};
	const struct pt_regs *regs;
	long waiting;

	if (!all || !is_member(task) || (task->flags & PF_EXITING))
		return 0;
	regs = (const struct pt_regs *)bpf_task_pt_regs(task);
	sample.ip = instruction_pointer(regs);
	sample.cpu_ns = cpu_time(task, all);
	sample.begun = task->start_time;
	sample.task = (unsigned long)task;
	sample.caller = caller_of(regs);
	sample.call = system_call(interrupted, regs);
	sample.pid = task->tgid;
	sample.tid = task->pid;
	waiting = all->waiting;
	sample.waiting = all->is_known && !all->forgotten ? (waiting > 0 ? waiting : 0) : FG_SPIN_UNKNOWN;
	if (bpf_ringbuf_output(&ring, &sample, sizeof(sample), BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&all->lost, 1);
	return 0;
}
