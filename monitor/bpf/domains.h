/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* What clients map, the counters of domains in it (struct fg_domain), and which domain a process is in. */
#ifndef FLEXGUARD_DOMAINS_H
#define FLEXGUARD_DOMAINS_H

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "kernel_types.h"
#include "monitor.h"

#define READ_ONCE(x) (*(const volatile typeof(x) *)&(x))

/* Frozen by the user half once it is loaded (BPF_MAP_FREEZE): from then on no process can write it or map it writable,
 * through whatever descriptor, so the descriptor can be handed to any client; BPF programs still can write. So a BPF
 * program writes every word, the heartbeat included. (A BPF_F_RDONLY descriptor would not do: the kernel refuses
 * MAP_SHARED on it, for reading too.) */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fg_published);
} shared SEC(".maps");

static __always_inline struct fg_published *published(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&shared, &zero);
}

#define CPUMASK_WORDS 128 /* the kernel knows no more CPUs than 8192 */

/* In whose counter a thread is, if it is counted at all. */
#define NOT_COUNTED FG_DOMAINS

/* Null: it has no counter of its own. */
static __always_inline struct fg_domain *domain_at(struct fg_published *all, __u64 domain)
{
	if (domain == 0 || domain >= FG_DOMAINS)
		return 0;
	barrier_var(domain); /* or the compiler bounds another register than the verifier sees used */
	return &all->domains[domain % FG_DOMAINS];
}

/* The domain's own counter. Domain 0 has none but the page's. */
static __always_inline void adjust_domain(struct fg_published *all, __u32 domain, int delta)
{
	struct fg_domain *its = domain_at(all, domain);

	if (its && __sync_fetch_and_add(&its->num_preempted_cs, delta) == 0)
		__sync_fetch_and_add(&its->mode_transitions, 1);
}

/* One thread may have joined a counter, and two left one. Who joins replaces one that leaves the same counter. */
static __always_inline void adjust_domains(struct fg_published *all, __u32 joined, __u32 left, __u32 left_too)
{
	if (joined == left) {
		adjust_domain(all, left_too, -1);
	} else if (joined == left_too) {
		adjust_domain(all, left, -1);
	} else {
		adjust_domain(all, joined, 1);
		adjust_domain(all, left, -1);
		adjust_domain(all, left_too, -1);
	}
}

/* No search that is under way may find that nobody is in the domain. */
static __always_inline void mark_domain(struct fg_published *all, __u64 domain)
{
	struct fg_domain *its = domain_at(all, domain);

	if (its)
		its->searched = READ_ONCE(all->page.domain_search);
}

/* The CPUs that the thread may use, by its cpuset and by sched_setaffinity: bit c is CPU c. On machines with more than
 * 56 CPUs a hash, which two sets hardly ever share; if they do, their processes share a domain. */
static __always_inline __u64 cpus_of(struct task_struct *task, __u32 cpus)
{
	__u64 word, number = 0, factor = 1;
	__u32 i;

	for (i = 0; i < CPUMASK_WORDS && i * 64 < cpus; i++) {
		if (bpf_probe_read_kernel(&word, sizeof(word), &task->cpus_mask.bits[0] + i))
			break;
		if (cpus - i * 64 < 64)
			word &= (1ull << (cpus - i * 64)) - 1;
		number += word * factor;
		factor *= 0x9e3779b97f4a7c15;
	}
	return cpus > 56 ? number * 0x9e3779b97f4a7c15 >> 8 : number;
}

/* What the processes of one domain have in common. */
static __always_inline __u64 domain_key(struct task_struct *task, __u64 kind, __u32 cpus)
{
	__u64 id;

	if (kind == FG_DOMAIN_USER)
		id = BPF_CORE_READ(task, real_cred, uid.val);
	else if (kind == FG_DOMAIN_CGROUP)
		id = BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
	else
		id = cpus_of(task, cpus);
	return kind << 56 | (id & ((1ull << 56) - 1));
}

/* Returns the first domain with that key; 0: there is none. Not static, so that the verifier looks at it by itself. */
__noinline __u32 domain_with(__u64 key)
{
	struct fg_published *all = published();
	__u32 i;

	for (i = 1; all && i < FG_DOMAINS; i++) {
		if (all->domains[i].key == key)
			return i;
	}
	return 0;
}

/* Returns the domain of a process that registers; 0 also if all others are in use. One process registers at a time. */
static __always_inline __u32 find_domain(struct task_struct *task, struct fg_published *all)
{
	__u64 kind = all->page.domain_kind, key;
	struct fg_domain *its;
	__u32 domain;

	if (kind == FG_DOMAIN_MACHINE)
		return 0;
	key = domain_key(task, kind, all->page.cpus);
	domain = domain_with(key);
	if (domain)
		return domain;
	domain = domain_with(0);
	its = domain_at(all, domain);
	if (its) {
		its->key = key;
		its->mode_transitions = 0;
	}
	return domain;
}

#endif
