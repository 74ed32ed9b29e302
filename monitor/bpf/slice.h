/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The slice forecast: when the thread that is being switched in will be due to lose its CPU. For locks that let a
 * thread queue only if it can be through by then (lab/locks/parts/informed.h); after I-Spinlock (EuroSys'17, section
 * 4.2.1), where a hypervisor tells it to its guests.
 *
 * What a scheduler leaves to a thread, in ns of real time:
 *   EEVDF (6.6 and later)  until its virtual time reaches its deadline, or the earlier point up to which it is
 *                          protected (vprot, 6.17 and later); in a hierarchy of groups the least of all levels at which
 *                          another entity competes. 7.3 has one level, with weights of their own (h_load).
 *   CFS (6.1)              its share, by weight, of a period that grows with the number of CPUs; the tunables are
 *                          taken at their defaults, since BPF cannot read them
 *   sched_ext              what the BPF scheduler gave it (scx.slice)
 *   others                 unknown: real-time and deadline threads run until something happens
 *
 * A slice does not end when this time is used up: the scheduler notices at a tick. So the forecast is the first tick at
 * which no time is left. Only if a timer is set for the exact time (HRTICK, usual since 7.1) is it that time.
 *
 * The forecast does not foresee threads that wake up meanwhile and are preferred, and interrupts. A thread without a
 * competitor is forecast as if it had one. How good it is in all, docs/results/slice-forecast.md says. */
#ifndef FLEXGUARD_SLICE_H
#define FLEXGUARD_SLICE_H

#include "kernel_types.h"

/* CFS's defaults on one CPU; they grow with 1 + the logarithm of the number of CPUs, of which 8 count. */
#define CFS_LATENCY_NS 6000000ull
#define CFS_GRANULARITY_NS 750000ull
#define CFS_LATENCY_SHARERS 8 /* beyond them the period grows */
#define MAX_GROUP_DEPTH 8     /* groups within groups that are looked at */
#define MAX_RT_PRIO 100       /* p->prio of real-time and deadline threads is lower */
#define SCX_TASK_QUEUED 1
#define SCX_SLICE_INF (~0ull)
#define HRTICK_SCHED_START 4 /* schedule() is about to set the timer to hrtick_delay */
#define NICE_0_SHIFT 20      /* the weight of nice 0 is 1 << 20 on 64 bits */
#define NOT_LEFT (~0ull)

static __always_inline __u64 entity_left(const struct sched_entity *se)
{
	__u64 weight = se->load.weight, end = se->deadline;
	__s64 left;

	if (bpf_core_field_exists(se->h_load))
		weight = se->h_load.weight;
	if (bpf_core_field_exists(se->vprot) && (__s64)(se->vprot - end) < 0)
		end = se->vprot;
	left = (__s64)(end - se->vruntime);
	return left > 0 ? ((__u64)left * weight) >> NICE_0_SHIFT : 0;
}

static __always_inline bool has_competition(const struct cfs_rq *queue)
{
	if (bpf_core_field_exists(queue->nr_queued))
		return queue->nr_queued > 1;
	return queue->nr_running > 1;
}

static __always_inline __u64 cfs_slice(const struct sched_entity *se, __u32 cpus)
{
	__u64 scale = cpus >= 8 ? 4 : cpus >= 4 ? 3 : cpus >= 2 ? 2 : 1, slice = CFS_LATENCY_NS;
	int level;

	if (!bpf_core_field_exists(se->parent) || !bpf_core_field_exists(se->cfs_rq->nr_running))
		return CFS_GRANULARITY_NS;
	if (se->cfs_rq->nr_running > CFS_LATENCY_SHARERS)
		slice = CFS_GRANULARITY_NS * se->cfs_rq->nr_running;
	slice *= scale;
	for (level = 0; level < MAX_GROUP_DEPTH && se; level++) {
		__u64 all = se->cfs_rq->load.weight;

		if (all)
			slice = slice * (se->load.weight >> 10) / ((all >> 10) ?: 1);
		se = se->parent;
	}
	return slice > CFS_GRANULARITY_NS * scale ? slice : CFS_GRANULARITY_NS * scale;
}

/* A virtual time that is far off, or a kernel that gives these fields another meaning, must not make a forecast of
 * minutes: a second is longer than any slice. */
static __always_inline __u64 fair_left(struct task_struct *task, __u32 cpus)
{
	const struct sched_entity *se = &task->se;
	__u64 least = NOT_LEFT;
	int level;

	if (!bpf_core_field_exists(se->deadline))
		return cfs_slice(se, cpus);
	if (!bpf_core_field_exists(se->h_load) && bpf_core_field_exists(se->parent)) {
		for (level = 0; level < MAX_GROUP_DEPTH && se; level++) {
			__u64 left = has_competition(se->cfs_rq) ? entity_left(se) : NOT_LEFT;

			if (left < least)
				least = left;
			se = se->parent;
		}
	}
	if (least == NOT_LEFT)
		least = entity_left(&task->se);
	return least < 1000000000 ? least : 0;
}

/* The first tick at or after `due`, when the scheduler will look for another thread. Ticks come at multiples of their
 * period (tick_setup_sched_timer, 6.1 to 7.3), on all CPUs alike unless the kernel was told to skew them; then the user
 * half gives no period. */
static __always_inline __u64 next_look(__u64 due, __u64 period)
{
	return period ? (due + period - 1) / period * period : due;
}

static __always_inline __u64 slice_end(struct task_struct *next, __u64 tick_period, __u32 cpus)
{
	__u64 now = bpf_ktime_get_ns(), left;

	if (next->prio < MAX_RT_PRIO)
		return 0;
	if (bpf_core_field_exists(next->scx) && next->scx.flags & SCX_TASK_QUEUED) {
		left = next->scx.slice;
		return left == SCX_SLICE_INF ? 0 : next_look(now + left, tick_period);
	}
	/* Without CONFIG_FAIR_GROUP_SCHED an entity does not name its queue. */
	if (bpf_core_field_exists(struct rq, hrtick_sched) && bpf_core_field_exists(next->se.cfs_rq)) {
		const struct rq *rq = next->se.cfs_rq->rq;

		if (rq->hrtick_sched & HRTICK_SCHED_START)
			return now + rq->hrtick_delay;
	}
	return next_look(now + fair_left(next, cpus), tick_period);
}

#endif
