/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The kernel types the monitor looks into, and of those only the fields it reads.
 *
 * preserve_access_index makes every access a CO-RE relocation: the loader finds the field in the running kernel's BTF,
 * by name, so neither offsets nor the fields left out matter. A field that some kernels lack is tested with
 * bpf_core_field_exists before it is read. Kernel versions are never compared.
 */
#ifndef FLEXGUARD_KERNEL_TYPES_H
#define FLEXGUARD_KERNEL_TYPES_H

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct load_weight {
	unsigned long weight;
};

struct rq {
	unsigned int hrtick_sched; /* since 7.0 */
	long long hrtick_delay;
};

struct cfs_rq {
	struct load_weight load;
	unsigned int nr_queued; /* since 6.14; before: */
	unsigned int nr_running;
	struct rq *rq;
};

struct sched_entity {
	struct load_weight load;
	struct load_weight h_load; /* since 7.3 */
	__u64 deadline;            /* since 6.6 */
	__u64 vruntime;
	__u64 vprot;      /* since 6.17 */
	__u64 exec_start; /* by the run queue's clock: when it was last put on its CPU, or accounted for */
	__u64 sum_exec_runtime;
	unsigned char sched_delayed; /* since 6.12: asleep, but its dequeue from the run queue was put off */
	struct sched_entity *parent;
	struct cfs_rq *cfs_rq;
};

struct sched_ext_entity { /* since 6.12 */
	unsigned int flags;
	__u64 slice;
};

/* The thread pointer. */
struct thread_struct {
	unsigned long fsbase; /* x86-64 */
	struct {
		unsigned long tp_value; /* arm64: as it was when the thread last left its CPU, or was made */
	} uw;
};

typedef struct {
	unsigned int val;
} kuid_t;

struct user_namespace {
	struct user_namespace *parent; /* null: the initial one */
	kuid_t owner;                  /* who made it */
};

struct cred {
	kuid_t uid;
	struct user_namespace *user_ns;
};

struct kernfs_iattrs {
	kuid_t ia_uid;
};

struct kernfs_node {
	__u64 id;
	struct kernfs_iattrs *iattr; /* null: it is root's */
};

struct cgroup_subsys_state {
	struct cgroup_subsys_state *parent; /* null: the root */
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp; /* in the hierarchy of version 2 */
};

struct cpumask {
	unsigned long bits[1]; /* as many as the kernel is built for */
};

struct bpf_local_storage;

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	int nr_threads;
	atomic_t live; /* threads that have not begun to exit */
};

struct upid {
	int nr;
};

struct pid {
	unsigned int level; /* of its PID namespace; 0: the initial one */
	struct upid numbers[1];
};

struct task_struct {
	unsigned int flags; /* PF_* */
	int on_cpu;
	unsigned int on_rq; /* unsigned, so that the loader may fit it to the byte it is since 7.3 */
	int prio;
	unsigned int policy; /* SCHED_* */
	int pid;             /* of the thread, in the initial PID namespace */
	int tgid;
	struct pid *thread_pid;
	char comm[16];
	struct task_struct *group_leader;
	struct task_struct *real_parent;
	struct sched_entity se;
	struct sched_ext_entity scx;
	struct thread_struct thread;
	struct bpf_local_storage *bpf_storage; /* null: it has no storage in any map */
	const struct cred *real_cred;
	struct signal_struct *signal;
	struct css_set *cgroups;
	struct cpumask cpus_mask; /* that it may use */
	__u64 start_time;         /* of the monotonic clock */
	__u64 self_exec_id;       /* grows with each exec, inherited by threads and children */
};

struct pt_regs {
	/* x86-64 */
	unsigned long bx;
	unsigned long ax;
	unsigned long cx;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long orig_ax; /* the number of the system call that the thread is in */
	unsigned long ip;
	unsigned long flags;
	unsigned long bp;
	/* both */
	unsigned long sp;
	/* arm64 */
	__u64 regs[31];
	__u64 pc;
	__u64 orig_x0; /* the first argument of the system call that the thread is in */
	int syscallno; /* and its number */
};

struct linux_binprm;

#pragma clang attribute pop

struct seq_file;

/* The context of an iter/task program: a calling convention, not a kernel structure. So is what `meta` points to. */
struct bpf_iter_meta {
	union {
		struct seq_file *seq;
		__u64 : 64;
	};
	__u64 session_id;
	__u64 seq_num;
};
struct bpf_iter__task {
	union {
		struct bpf_iter_meta *meta;
		__u64 : 64;
	};
	union {
		struct task_struct *task;
		__u64 : 64;
	};
};

#define NR_FUTEX_X86_64 202
#define NR_FUTEX_ARM64 98
#define FUTEX_WAIT 0
#define FUTEX_WAIT_BITSET 9
#define FUTEX_COMMAND 0x7f

#define SCHED_IDLE 5

#define PF_EXITING 0x00000004
#define PF_IO_WORKER 0x00000010
#define PF_USER_WORKER 0x00004000 /* since 6.4; unused before, back to 6.1 */
#define PF_KTHREAD 0x00200000

#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, v) (*(volatile __typeof__(x) *)&(x) = (v))

#endif
