// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* The Preemption Monitor, kernel half.
 *
 * The question it answers, at every context switch of the machine: was the thread that loses the CPU in a critical
 * section, and does it lose the CPU against its will? The number of such threads is num_preempted_cs, on a page that
 * every client maps; waiters spin while it is 0 and block while it is not.
 *
 * Where it looks. In tp_btf/sched_switch `current` still is prev, and prev's memory is still mapped, so
 * bpf_probe_read_user reads prev's own thread block at (thread pointer + offset). The registration says the offset once
 * per process, in storage on the thread-group leader: threads need not register, have no ids and no limit, and storage
 * dies with its task, so there is nothing to reclaim. A page that is not resident reads as an error, that is, as not
 * critical; it is counted as unreadable.
 *
 * Which switches count. The ones that leave prev runnable. `preempt` alone does not say it: user code is preempted on
 * its way out of an interrupt by a plain schedule(). sched_yield looks the same and is no less bad for the waiters. A
 * holder that sleeps (I/O, a page fault, a nested lock) is not preempted: spinning for it would only burn its CPU. So
 * it is not counted, but its name is published (`off_cpu`), for those who wait for it. So is a preempted holder's.
 * A thread that is exiting is not counted, whatever its block says: it never returns to user mode, so no lock is
 * waiting for its next time slice. Workers that the kernel makes from a user thread (io_uring, vhost) carry a copy of
 * its thread pointer but never run its code: what the thread block says is not about them.
 * A vfork child (posix_spawn) runs on its parent's thread block while the parent sleeps. If the parent holds a lock,
 * the lock waits for the child, so the child is rightly judged by that block until it execs.
 *
 * How the counter stays right (I5: equal to the number of runnable critical threads that are off CPU, except those
 * that fg_age took out of it; never negative, 0 when all is quiet). Whether a thread is counted stands in its own
 * storage, where no user can reach it; it is set when the thread is switched out and cleared when it is switched in,
 * both on the CPU that does it, under its run-queue lock. kill -9 needs no special case: a runnable thread is switched
 * in to die. Out and in of one switch are added up before the counter is touched, so that one critical thread
 * replacing another never shows the waiters a false 0.
 * A switch-in can go unseen: a kernel has been watched (6.18, of a virtual machine) that runs no tracer at a switch
 * away from a thread of process 1, 1 to 6 times a second, and on 6.1 a storage look-up fails while its CPU is in the
 * middle of a storage update. So each thread that is switched out, for whatever reason, is uncounted first: an error
 * lasts until the thread's next switch at most. All of this goes for the names in `off_cpu`, too: `named` is how many
 * there are of threads that sleep.
 *
 * Hooks. The paper's monitor has sched_switch alone (section 4); this one has fork, exec, free and a task iterator
 * besides.
 *
 * What it never does: allocate in sched_switch. An allocation under the run-queue lock may want to wake a kernel
 * thread, that is, take the run-queue lock. Thread records are made by the fork hook for the threads and children of
 * registered processes, and by a task iterator (fg_adopt) for the threads that are older than the registration. A
 * critical thread without a record is `missed`, and not counted, because it could not be uncounted.
 *
 * Whom a thread concerns. The page's counter has all that are counted. A process of a domain polls the domain's own
 * counter, which has the threads of that domain alone (struct fg_domain), and looks for names in the domain's own
 * `off_cpu`. A thread leaves the counter and the table that it joined, since its record says which.
 *
 * The state that outlives a monitor is in the maps `shared`, `processes`, `tables`, `threads` and `counts`: a monitor
 * that is started again takes them over (monitor/src/keep.rs), and attaches its programs before it detaches its
 * predecessor's. While both are attached each switch is judged twice, which changes no count: the second uncounts first
 * what the first has counted.
 *
 * What it costs a bystander: a per-CPU increment; if any process ever registered, a few loads from the two threads,
 * and its CPU's line (struct fg_cpu); no call of the kernel's. Only where some other program keeps storage for the
 * thread, it is looked up in ours in vain, and once more if any process ever asked for the ends of its slices
 * (slice.h).
 */
#include <stdbool.h>

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "census.h"
#include "cpus.h"
#include "domains.h"
#include "judge.h"
#include "kernel_types.h"
#include "monitor.h"
#include "names.h"
#include "recount.h"
#include "slice.h"

char dual_license[] SEC("license") = "Dual MIT/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fg_cpu_counts);
} counts SEC(".maps");

static __always_inline struct fg_shared *shared_page(void)
{
	return (struct fg_shared *)published();
}

static __always_inline struct fg_cpu_counts *cpu_counts(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&counts, &zero);
}

/* ---- counting -------------------------------------------------------------------------------------------------- */

/* What all that happens at a switch shares. */
struct moment {
	struct fg_published *all;
	struct fg_shared *page; /* the beginning of `all` */
	struct fg_cpu_counts *count;
	__u32 cpu;
	__u64 now;                  /* 0: the clock, a call that costs as much as two look-ups, was not yet read */
	struct task_struct *leader; /* whose record `process` is: next's process is often prev's */
	struct fg_process_record *process;
};

static __always_inline __u64 time_of(struct moment *at)
{
	if (!at->now)
		at->now = bpf_ktime_get_ns();
	return at->now;
}

/* Not of a thread that is exiting: once it is released, nothing keeps its leader's memory for the rest of its way. */
static __always_inline struct fg_process_record *process_of(struct task_struct *task, struct moment *at)
{
	struct task_struct *leader = task->group_leader;

	if (at->leader != leader) {
		at->leader = leader;
		at->process = bpf_task_storage_get(&processes, leader, 0, 0);
	}
	return at->process;
}

/* Null: the thread is neither counted nor named. While no thread is, none is looked up; `named` has the aged ones. */
static __always_inline struct fg_thread_record *tracked(struct task_struct *task, struct fg_shared *page)
{
	if ((!READ_ONCE(page->num_preempted_cs) && !READ_ONCE(page->named)) || !task->bpf_storage)
		return 0;
	return bpf_task_storage_get(&threads, task, 0, 0);
}

/* The thread runs again, for which its process has waited since it was counted. */
static __always_inline void note_duration(struct task_struct *task, const struct fg_thread_record *thread,
					  struct moment *at)
{
	struct fg_process_record *process = task->flags & PF_EXITING ? 0 : process_of(task, at);
	__u64 ns = time_of(at) - thread->since_ns;
	__u64 bound = FG_SHORTEST_NS;
	__u32 i;

	for (i = 0; i < FG_DURATIONS - 1 && ns > bound; i++)
		bound *= 2;
	if (i < FG_DURATIONS)
		at->count->durations[i]++;
	at->count->preempted_ns += ns;
	if (process)
		__sync_fetch_and_add(&process->counts.preempted_ns, ns);
}

/* Returns the domain whose counter has the thread; it no longer is counted, nor is its name published. */
static __always_inline __u32 uncount(struct task_struct *task, struct fg_thread_record *thread, struct moment *at)
{
	__u32 was;

	if (!thread)
		return NOT_COUNTED;
	if (thread->named_as)
		forget_name(thread, at->all);
	if (READ_ONCE(thread->counted_as) == FG_KIND_NONE)
		return NOT_COUNTED;
	was = __sync_lock_test_and_set(&thread->counted_as, FG_KIND_NONE);
	note_duration(task, thread, at);
	if (!(was & FG_AGED))
		return thread->domain;
	__sync_fetch_and_add(&at->page->named, -1);
	return NOT_COUNTED;
}

/* Returns the domain in whose counter `thread`, which loses its CPU to `next`, now is. */
static __always_inline __u32 count_as(struct fg_thread_record *thread, struct task_struct *next, enum fg_kind kind,
				      __u32 name, __u32 life, struct fg_process_record *process, struct moment *at)
{
	struct fg_shared *page = at->page;

	if (!thread) {
		__sync_fetch_and_add(&page->missed, 1);
		return NOT_COUNTED;
	}
	if (kind == FG_KIND_HOLDER) {
		__sync_fetch_and_add(&page->preemptions[at->cpu % FG_COUNT_LINES].holders, 1);
		__sync_fetch_and_add(&process->counts.preempted_holders, 1);
	} else {
		__sync_fetch_and_add(&page->preemptions[at->cpu % FG_COUNT_LINES].next_waiters, 1);
		__sync_fetch_and_add(&process->counts.preempted_next_waiters, 1);
	}
	if (name)
		publish_name(thread, name | FG_RUNNABLE, life, at->cpu, at->all);
	thread->since_ns = time_of(at);
	thread->by_tgid = next->tgid;
	thread->by_tid = next->pid;
	thread->counted_as = kind;
	return thread->domain;
}

/* The counter has risen from 0: the locks block. Of two CPUs that move it at once, the second may hide the first's
 * time from the sum, but never adds time in which the counter was 0. The time may then be 0 while the counter is not,
 * or the other way round: its readers look at the counter, too. */
static __always_inline void begin_blocking(struct moment *at)
{
	__sync_fetch_and_add(&at->page->mode_transitions, 1);
	at->page->blocking_since_ns = time_of(at);
}

static __always_inline void end_blocking(struct moment *at)
{
	__u64 since = __sync_lock_test_and_set(&at->page->blocking_since_ns, 0);

	if (since && (__s64)(time_of(at) - since) > 0) /* the other CPU's clock may be read later */
		__sync_fetch_and_add(&at->page->blocking_ns, time_of(at) - since);
}

static __always_inline void adjust(struct moment *at, int delta)
{
	if (delta > 0) {
		if (__sync_fetch_and_add(&at->page->num_preempted_cs, delta) == 0)
			begin_blocking(at);
	} else if (delta < 0) {
		if (__sync_fetch_and_add(&at->page->num_preempted_cs, delta) == (__u32)-delta)
			end_blocking(at);
	}
}

/* Returns the domain in whose counter prev now is. `thread` is its record, if it was already looked up. */
static __always_inline __u32 switched_out(struct task_struct *prev, struct fg_thread_record *thread,
					  struct task_struct *next, bool runnable, struct moment *at)
{
	struct fg_process_record *process;
	enum fg_kind kind;
	__u32 name = 0, life = 0;

	if (!may_be_judged(prev))
		return NOT_COUNTED;
	process = process_of(prev, at);
	if (!judges(process, prev))
		return NOT_COUNTED;
	kind = judge(prev, process, at->count, &name, &life);
	if (runnable)
		at->count->registered_preemptions++;
	if (kind == FG_KIND_NONE || (!runnable && kind != FG_KIND_HOLDER))
		return NOT_COUNTED;
	if (!thread)
		thread = bpf_task_storage_get(&threads, prev, 0, 0);
	if (thread)
		thread->domain = process->domain;
	if (name && !is_own_name(prev, name))
		name = 0;
	if (runnable)
		return count_as(thread, next, kind, name, life, process, at);
	if (thread && name)
		publish_name(thread, name, life, at->cpu, at->all);
	return NOT_COUNTED;
}

static __always_inline void publish_slice(struct task_struct *next, __u32 cpu, struct fg_published *all)
{
	struct task_struct *leader = next->group_leader;
	struct fg_cpu *line = line_of(cpu, all);
	struct fg_process_record *process;

	if (!line || (next->flags & (PF_KTHREAD | PF_EXITING)) || !leader->bpf_storage) /* as process_of */
		return;
	process = bpf_task_storage_get(&processes, leader, 0, 0);
	if (process && (process->flags & FG_WANT_SLICE_FORECAST))
		line->slice_end_ns = slice_end(next, all->page.tick_ns, all->page.cpus);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(fg_sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state)
{
	struct fg_cpu_counts *count = cpu_counts();
	struct fg_published *all = published();
	struct fg_shared *page = &all->page;
	struct moment at = {.all = all, .page = page, .count = count};
	struct fg_thread_record *thread;
	__u32 joined, left, left_too;
	bool runnable;

	if (!count || !all)
		return 0;
	count->switches++;
	if (!READ_ONCE(page->any_process))
		return 0;
	at.cpu = bpf_get_smp_processor_id();
	left = uncount(next, tracked(next, page), &at);
	thread = tracked(prev, page);
	/* prev ran until now: if it is still counted, its switch-in went unseen. */
	left_too = uncount(prev, thread, &at);
	runnable = still_runnable(prev, preempt, prev_state);
	joined = switched_out(prev, thread, next, runnable, &at);
	if (joined != NOT_COUNTED || left != NOT_COUNTED || left_too != NOT_COUNTED) {
		adjust(&at, (joined != NOT_COUNTED) - (left != NOT_COUNTED) - (left_too != NOT_COUNTED));
		adjust_domains(all, joined, left, left_too);
	}
	publish_cpu(prev, next, runnable, at.cpu, all, count);
	if (page->slices_wanted)
		publish_slice(next, at.cpu, all);
	return 0;
}

/* ---- the life of a registration -------------------------------------------------------------------------------- */

/* Twice: the first try fails if somebody else gives the thread its first storage at this moment. */
static __always_inline void make_thread_record(struct task_struct *task, struct fg_cpu_counts *count)
{
	if (!bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE) &&
	    !bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE))
		count->lost_records++;
}

static __always_inline void forget_counts(struct fg_process_record *process)
{
	process->counts.preempted_holders = 0;
	process->counts.preempted_next_waiters = 0;
	process->counts.preempted_ns = 0;
}

/* No search that is under way may find that no process is in its domain, or has its windows. */
static __always_inline void mark(const struct fg_process_record *process, struct fg_published *all)
{
	struct fg_table *table;
	__u32 i, number;

	mark_domain(all, process->domain);
	for (i = 0; i < FG_MAX_IMAGES; i++) {
		number = process->images[i].table;
		table = i < process->n_images && number ? bpf_map_lookup_elem(&tables, &number) : 0;
		if (table)
			table->searched = READ_ONCE(all->page.domain_search);
	}
}

static __always_inline void inherit(struct task_struct *child, struct fg_process_record *parent,
				    struct fg_published *all, struct fg_cpu_counts *count)
{
	struct fg_process_record *process =
		bpf_task_storage_get(&processes, child, parent, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (process) {
		count->inherited_processes++;
		forget_counts(process);
		mark(process, all);
	} else {
		count->lost_records++;
	}
}

/* A child process starts as a copy of its parent: same images at the same addresses. Of a parent that is about to be
 * registered and has no image yet, the copy would be held against no account. A new thread needs its record before it
 * is first preempted. The child has not run yet. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(fg_fork, struct task_struct *parent, struct task_struct *child)
{
	struct fg_cpu_counts *count = cpu_counts();
	struct fg_published *all = published();
	struct fg_process_record *process;

	if (!count || !all || !all->page.any_process)
		return 0;
	process = bpf_task_storage_get(&processes, parent->group_leader, 0, 0);
	if (!process)
		return 0;
	if (child->pid == child->tgid) {
		if (!process->n_images || !may_have(process, true, FG_PROCESS_BYTES + FG_THREAD_BYTES))
			return 0;
		inherit(child, process, all, count);
	} else if (!may_have(process, false, FG_THREAD_BYTES)) {
		count->lost_records++;
		return 0;
	}
	make_thread_record(child, count);
	return 0;
}

/* A thread that is in no counter and has no name needs no record: without a process record nothing gives it either. One
 * whose last switch-in went unseen keeps its record, for its next switch. */
static __always_inline void forget_thread(struct task_struct *task)
{
	struct fg_thread_record *thread = bpf_task_storage_get(&threads, task, 0, 0);

	if (!thread || thread->counted_as != FG_KIND_NONE || thread->named_as)
		return;
	if (bpf_task_storage_delete(&threads, task) == 0)
		give_back(FG_THREAD_BYTES);
}

/* Another program: its addresses and thread blocks are its own. By now the caller leads its thread group. Where the
 * kernel cannot delete the record now (6.1, while this CPU is in a storage update), its exec_id makes it void. The
 * thread's record would be held against nobody's share: a user could take all of the budget by programs that do not
 * register. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(fg_exec, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
	struct fg_shared *page = shared_page();

	if (page && page->any_process && bpf_task_storage_delete(&processes, task) == 0)
		give_back(FG_PROCESS_BYTES);
	if (page && page->any_process && !bpf_task_storage_get(&processes, task, 0, 0))
		forget_thread(task);
	return 0;
}

/* The kernel frees the task, and its records with it. Not when it exits: a zombie has its records. */
SEC("tp_btf/sched_process_free")
int BPF_PROG(fg_free, struct task_struct *task)
{
	struct fg_shared *page = shared_page();

	if (!page || !page->any_process || !task->bpf_storage)
		return 0;
	if (bpf_task_storage_get(&threads, task, 0, 0))
		give_back(FG_THREAD_BYTES);
	if (bpf_task_storage_get(&processes, task, 0, 0))
		give_back(FG_PROCESS_BYTES);
	return 0;
}

/* The record belongs to the program that the process runs now. What an earlier one has left in it goes. */
static __always_inline void renew_process_record(struct fg_process_record *process, struct task_struct *leader,
						 __u64 kind)
{
	if (process->exec_id == leader->self_exec_id)
		return;
	process->n_images = 0;
	process->flags = 0;
	process->domain = 0;
	process->account = account_of(leader, kind);
	forget_counts(process);
	process->exec_id = leader->self_exec_id;
	add_to_budget(FG_BUDGET_LEFT, -(__s64)FG_PROCESS_BYTES);
}

/* Run by the user half over the first thread of a process that registers, when the process has a record, if only an
 * empty one: from here on the record is of the program that the process runs now. */
SEC("iter/task")
int fg_tie(struct bpf_iter__task *ctx)
{
	struct fg_published *all = published();
	struct task_struct *task = ctx->task;
	struct fg_process_record *process;

	if (!all || !task)
		return 0;
	all->page.any_process = 1;
	process = task->pid == task->tgid ? bpf_task_storage_get(&processes, task, 0, 0) : 0;
	if (!process)
		return 0;
	renew_process_record(process, task, all->page.domain_kind);
	if (!process->n_images && (!process->domain || fg_is_shared_domain(process->domain)))
		process->domain = find_domain(task, all);
	mark(process, all);
	return 0;
}

/* Run by the user half over the threads of a process that is to be registered: gives a record to those that are there.
 * Later ones get it from fg_fork, which sees the process record. Only then the images are added, so that no thread is
 * judged that could not be counted. */
SEC("iter/task")
int fg_adopt(struct bpf_iter__task *ctx)
{
	struct fg_cpu_counts *count = cpu_counts();
	struct fg_published *all = published();
	struct task_struct *task = ctx->task;

	if (!count || !all || !task)
		return 0;
	all->page.any_process = 1; /* again: a census may have found no process since fg_tie */
	if (bpf_task_storage_get(&threads, task, 0, 0))
		return 0;
	if (spend(FG_THREAD_BYTES))
		make_thread_record(task, count);
	else
		count->lost_records++;
	return 0;
}

/* Run by the user half over the threads of a process that is not registered after all, when its record is gone, so that
 * no later thread gets one. */
SEC("iter/task")
int fg_forget(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (task && !bpf_task_storage_get(&processes, task->group_leader, 0, 0))
		forget_thread(task);
	return 0;
}

/* Run by the user half before and after fg_mark_domains: a search for domains that no process is in. */
SEC("syscall")
int fg_search_domains(struct fg_search_args *args)
{
	struct fg_published *all = published();
	__u32 i;

	if (!all)
		return 1;
	if (!args->ends) {
		__sync_fetch_and_add(&all->page.domain_search, 1);
		return 0;
	}
	for (i = 1; i < FG_DOMAINS; i++) {
		if (all->domains[i].searched != all->page.domain_search && !all->domains[i].num_preempted_cs)
			all->domains[i].key = 0;
	}
	return 0;
}

/* Run by the user half over all threads of the machine. A process that is forked meanwhile is seen by fg_fork. */
SEC("iter/task")
int fg_mark_domains(struct bpf_iter__task *ctx)
{
	struct fg_published *all = published();
	struct task_struct *task = ctx->task;
	struct fg_process_record *process;

	if (!all || !task || (task->flags & PF_KTHREAD))
		return 0;
	process = bpf_task_storage_get(&processes, task, 0, 0);
	if (process)
		mark(process, all);
	return 0;
}

/* Run by the user half over all threads of the machine: who is registered, and who is counted now. */
SEC("iter/task")
int fg_list(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct fg_process_record *process;
	struct fg_thread_record *thread;
	struct fg_published *all = published();
	struct fg_listed listed = {};
	struct fg_domain *domain;

	if (!all || !task || (task->flags & PF_KTHREAD))
		return 0;
	process = bpf_task_storage_get(&processes, task, 0, 0);
	thread = bpf_task_storage_get(&threads, task, 0, 0);
	listed.tgid = task->tgid;
	listed.tid = task->pid;
	if (process && process->n_images && process->exec_id == task->self_exec_id)
		listed.registered = 1;
	if (thread) {
		listed.counted_as = thread->counted_as;
		listed.since_ns = thread->since_ns;
		listed.by_tgid = thread->by_tgid;
		listed.by_tid = thread->by_tid;
		listed.domain = thread->domain;
	}
	if (process && listed.registered) {
		listed.domain = process->domain;
		listed.preempted_holders = process->counts.preempted_holders;
		listed.preempted_next_waiters = process->counts.preempted_next_waiters;
		listed.preempted_ns = process->counts.preempted_ns;
	}
	listed.domain_counter = all->page.num_preempted_cs;
	domain = domain_at(all, listed.domain);
	if (domain) {
		listed.domain_counter = domain->num_preempted_cs;
		listed.domain_key = domain->key;
	}
	if (listed.registered || listed.counted_as)
		bpf_seq_write(ctx->meta->seq, &listed, sizeof(listed));
	return 0;
}

static __always_inline bool waits_too_long(const struct fg_thread_record *thread)
{
	return (__s64)(bpf_ktime_get_ns() - READ_ONCE(thread->since_ns)) >= (__s64)FG_AGED_NS;
}

/* Run by the user half over all threads of the machine while the counter stays above 0. A thread that does not get a
 * CPU for so long (a control group that is throttled, a priority that is starved) stalls its own lock's users. All
 * other locks must not wait for it as well, so the counter forgets it. Its name stays published. */
SEC("iter/task")
int fg_age(struct bpf_iter__task *ctx)
{
	struct fg_cpu_counts *count = cpu_counts();
	struct fg_published *all = published();
	struct fg_shared *page = &all->page;
	struct task_struct *task = ctx->task;
	struct fg_thread_record *thread;
	struct moment at = {.page = page, .count = count};
	struct fg_listed aged = {};
	__u32 kind;

	if (!count || !all || !task || (task->flags & PF_KTHREAD))
		return 0;
	thread = bpf_task_storage_get(&threads, task, 0, 0);
	if (!thread)
		return 0;
	kind = READ_ONCE(thread->counted_as) & ~FG_AGED;
	if (kind == FG_KIND_NONE || !waits_too_long(thread))
		return 0;
	__sync_fetch_and_add(&page->named, 1);
	if (__sync_val_compare_and_swap(&thread->counted_as, kind, kind | FG_AGED) != kind) {
		__sync_fetch_and_add(&page->named, -1); /* it is aged, or was switched in meanwhile */
		return 0;
	}
	/* It may have run meanwhile, and been counted anew. If it runs now, it is uncounted as an aged one. */
	if (!waits_too_long(thread) &&
	    __sync_val_compare_and_swap(&thread->counted_as, kind | FG_AGED, kind) == (kind | FG_AGED)) {
		__sync_fetch_and_add(&page->named, -1);
		return 0;
	}
	adjust(&at, -1);
	adjust_domain(all, thread->domain, -1);
	count->aged++;
	aged.tgid = task->tgid;
	aged.tid = task->pid;
	aged.counted_as = kind;
	aged.by_tgid = thread->by_tgid;
	aged.by_tid = thread->by_tid;
	bpf_seq_write(ctx->meta->seq, &aged, sizeof(aged));
	return 0;
}

/* Run by the user half when a process asks for it. */
SEC("syscall")
int fg_want_slices(void *unused)
{
	struct fg_shared *page = shared_page();

	if (page)
		page->slices_wanted = 1;
	return 0;
}

/* Run by the user half: at the start, every FG_HEARTBEAT_NS, and to say goodbye. */
SEC("syscall")
int fg_beat(struct fg_beat_args *args)
{
	struct fg_shared *page = shared_page();

	if (!page)
		return 1;
	page->magic = FG_ABI_MAGIC;
	page->version = FG_ABI_VERSION;
	page->tick_ns = args->tick_ns;
	page->cpus = args->cpus;
	page->domain_kind = args->domain_kind;
	page->heartbeat_ns = args->alive ? bpf_ktime_get_ns() : 0;
	return 0;
}

/* Run by the user half with each beat, for each CPU that is off line. */
SEC("syscall")
int fg_off_line(struct fg_off_line_args *args)
{
	struct fg_published *all = published();

	if (all)
		publish_off_line(args->cpu, all);
	return 0;
}
