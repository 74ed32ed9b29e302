/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* What clients map, the counters of domains in it (struct fg_domain), and which domain a process is in. */
#ifndef FLEXGUARD_DOMAINS_H
#define FLEXGUARD_DOMAINS_H

#include <stdbool.h>

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "kernel_types.h"
#include "monitor.h"

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

/* The functions that are not static: the verifier looks at such a function once, by itself, and at a static one on each
 * path that calls it. They take addresses as numbers, which they read with bpf_probe_read_kernel. */

/* The CPUs that the leader of a process may use, by its cpuset and by sched_setaffinity: bit c is CPU c. On machines
 * with more than 56 CPUs a hash, which two sets hardly ever share; if they do, their processes share a domain. */
__noinline __u64 fg_cpus_of(__u64 leader, __u32 cpus)
{
	const struct task_struct *task = (const struct task_struct *)leader;
	__u64 word, number = 0, factor = 1;
	__u32 i;

	for (i = 0; i < CPUMASK_WORDS && i * 64 < cpus; i++) {
		if (bpf_probe_read_kernel(&word, sizeof(word), &task->cpus_mask.bits[0] + i))
			break;
		if (i * 64 + 64 > cpus) {
			number += (word & ((1ull << (cpus - i * 64)) - 1)) * factor;
			break; /* or the verifier follows the loop to its end from each word that may be the last */
		}
		number += word * factor;
		factor *= 0x9e3779b97f4a7c15;
	}
	return cpus > 56 ? number * 0x9e3779b97f4a7c15 >> 8 : number;
}

static __always_inline __u64 cpus_of(struct task_struct *task, __u32 cpus)
{
	return fg_cpus_of((__u64)BPF_CORE_READ(task, group_leader), cpus);
}

#define DEEPEST_USER_NAMESPACE 33 /* the kernel makes none below */

/* Returns the outermost user namespace of these credentials, below the initial one; 0: they are of the initial one. */
__noinline __u64 fg_namespace_of(__u64 credentials)
{
	const struct cred *cred = (const struct cred *)credentials;
	const struct user_namespace *ns = BPF_CORE_READ(cred, user_ns), *above;
	const struct user_namespace *below = 0;
	__u32 i;

	for (i = 0; i < DEEPEST_USER_NAMESPACE; i++) {
		above = BPF_CORE_READ(ns, parent);
		if (!above)
			return (__u64)below;
		below = ns;
		ns = above;
	}
	return 0;
}

/* Whom a process is to be held against: its real user; but in a user namespace that an unprivileged user has made, that
 * user, since the ids in it are a range of subordinate ones, of which it may have any. */
struct owner {
	__u32 user;
	bool container; /* it is in a user namespace that root has made */
};

static __always_inline struct owner owner_of(struct task_struct *task)
{
	const struct cred *cred = BPF_CORE_READ(task, real_cred);
	const struct user_namespace *ns = (const struct user_namespace *)fg_namespace_of((__u64)cred);
	__u32 maker = ns ? BPF_CORE_READ(ns, owner.val) : 0;

	return (struct owner){.user = maker ? maker : BPF_CORE_READ(cred, uid.val), .container = ns && !maker};
}

#define DEEPEST_GROUP 64

/* Returns the number of the innermost control group that this one is in and that root has made: who has one of his own
 * can make any number below it, and give them to any of his subordinate ids. */
__noinline __u64 fg_group_of(__u64 inner)
{
	const struct cgroup *group = (const struct cgroup *)inner;
	__u64 above;
	__u32 i;

	for (i = 0; i < DEEPEST_GROUP && BPF_CORE_READ(group, kn, iattr, ia_uid.val); i++) {
		above = (__u64)BPF_CORE_READ(group, self.parent);
		if (!above)
			break;
		group = (const struct cgroup *)(above - bpf_core_field_offset(struct cgroup, self));
	}
	return BPF_CORE_READ(group, kn, id);
}

/* Against whom the process's share of the monitor is held, of the server as of the records: its user; but its control
 * group, where that makes the domains, for root, which every container has, and in a user namespace that root has made,
 * whose root can become each of its users. */
static __always_inline __u64 account_of(struct task_struct *task, __u64 kind)
{
	struct owner owner = owner_of(task);

	if (kind != FG_DOMAIN_CGROUP && owner.user && !owner.container)
		return (__u64)FG_DOMAIN_USER << 56 | owner.user;
	return (__u64)FG_DOMAIN_CGROUP << 56 | fg_group_of((__u64)BPF_CORE_READ(task, cgroups, dfl_cgrp));
}

/* What the processes of one domain have in common. */
static __always_inline __u64 domain_key(struct task_struct *task, __u64 kind, __u32 cpus)
{
	__u64 id;

	if (kind == FG_DOMAIN_USER)
		id = owner_of(task).user;
	else if (kind == FG_DOMAIN_CGROUP)
		id = BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
	else
		id = cpus_of(task, cpus);
	return kind << 56 | (id & ((1ull << 56) - 1));
}

/* Returns the first domain with that key of `number` domains from `first` on; 0: there is none. */
__noinline __u32 domain_with(__u64 key, __u32 first, __u32 number)
{
	struct fg_published *all = published();
	__u32 i;

	for (i = 1; all && i < FG_DOMAINS; i++) {
		if (i - first < number && all->domains[i].key == key)
			return i;
	}
	return 0;
}

/* Whose processes a process may share a domain with if there are too many keys: the more anybody can become another
 * one, the later. */
enum fg_class {
	CLASS_SYSTEM,    /* services */
	CLASS_PERSON,    /* a user who has an id of this machine's own */
	CLASS_DIRECTORY, /* an id above, as directories and ranges of subordinate ids have them */
	CLASS_CONTAINER, /* an id of a user namespace that root has made: its root has all of them */
};

#define FIRST_PERSON 1000u
#define FIRST_OF_DIRECTORIES 65536u

static __always_inline enum fg_class class_of(struct task_struct *task)
{
	struct owner owner = owner_of(task);

	if (owner.container)
		return CLASS_CONTAINER;
	if (owner.user >= FIRST_OF_DIRECTORIES)
		return CLASS_DIRECTORY;
	return owner.user >= FIRST_PERSON ? CLASS_PERSON : CLASS_SYSTEM;
}

static __always_inline __u32 hash_of_key(__u64 key)
{
	return (key * 0x9e3779b97f4a7c15) >> 40;
}

/* A domain for a key that has none yet; 0: none of these is free. */
static __always_inline __u32 take_domain(struct fg_published *all, __u64 key, __u32 first, __u32 number)
{
	__u32 domain = domain_with(0, first, number);
	struct fg_domain *its = domain_at(all, domain);

	if (its) {
		its->key = key;
		its->mode_transitions = 0;
	}
	return domain;
}

/* Returns the domain of a process that registers. One process registers at a time. The first domains are anybody's, one
 * a key. If all are taken, each class has some more, and then some that its further keys share: never one of those that
 * another class is in. A user who can take any number of ids takes domains of its own class alone: nobody polls a
 * counter of the machine. */
static __always_inline __u32 find_domain(struct task_struct *task, struct fg_published *all)
{
	__u64 kind = all->page.domain_kind, key;
	__u32 domain, reserved, shared_one;
	struct fg_domain *its;

	if (kind == FG_DOMAIN_MACHINE)
		return 0;
	key = domain_key(task, kind, all->page.cpus);
	reserved = FG_COMMON_DOMAINS + class_of(task) * 2 * FG_CLASS_DOMAINS;
	domain = domain_with(key, 1, FG_DOMAINS);
	if (!domain)
		domain = take_domain(all, key, 1, FG_COMMON_DOMAINS - 1);
	if (!domain)
		domain = take_domain(all, key, reserved, FG_CLASS_DOMAINS);
	if (domain)
		return domain;
	shared_one = reserved + FG_CLASS_DOMAINS + hash_of_key(key) % FG_CLASS_DOMAINS;
	its = domain_at(all, shared_one);
	if (its)
		its->key = FG_SHARED_KEY | shared_one;
	return shared_one;
}

#endif
