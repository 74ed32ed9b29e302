/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* The names of critical threads that are off their CPU: `off_cpu` of the domain, which all of its programs read. */
#ifndef FLEXGUARD_NAMES_H
#define FLEXGUARD_NAMES_H

#include <stdbool.h>

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "kernel_types.h"
#include "monitor.h"

#define DEEPEST_PID_NAMESPACE 32 /* the kernel makes none below */

/* A thread's name is its id, as its own PID namespace has it. A program that gives its threads other names may want the
 * waiters of another program's locks to park: those names are not published. */
static __always_inline bool is_own_name(struct task_struct *task, __u32 name)
{
	const void *pid, *number;
	__u32 level;
	int id = 0;

	if (name == (__u32)task->pid)
		return true;
	pid = BPF_CORE_READ(task, thread_pid);
	level = BPF_CORE_READ((const struct pid *)pid, level);
	if (level == 0 || level > DEEPEST_PID_NAMESPACE)
		return false;
	number = pid + bpf_core_field_offset(struct pid, numbers) + level * bpf_core_type_size(struct upid) +
		 bpf_core_field_offset(struct upid, nr);
	return !bpf_probe_read_kernel(&id, sizeof(id), number) && name == (__u32)id;
}

static __always_inline __u32 *place_of(__u32 name, __u64 domain, struct fg_published *all)
{
	__u64 place = fg_off_cpu_place(name);

	barrier_var(place); /* or the verifier of 6.1 finds no bound in how it is computed */
	if (domain == 0 || domain >= FG_DOMAINS)
		return &all->page.off_cpu[place % FG_OFF_CPU];
	barrier_var(domain); /* as in domain_at */
	return &all->off_cpu[domain % FG_DOMAINS][place % FG_OFF_CPU];
}

static __always_inline __u32 *note_of(__u32 name, __u64 domain, struct fg_published *all)
{
	__u64 place = fg_off_cpu_place(name);

	barrier_var(place); /* as above */
	barrier_var(domain);
	return &all->off_cpu_notes[domain % FG_DOMAINS][place % FG_OFF_CPU];
}

/* A place that another thread has taken meanwhile is left to it. */
static __always_inline void forget_name(struct fg_thread_record *thread, struct fg_published *all)
{
	__u32 name = thread->named_as, *place = place_of(name, thread->domain, all), *note;

	if (*place == name)
		*place = 0;
	if (thread->noted) {
		note = note_of(name, thread->domain, all);
		if (*note == thread->noted)
			*note = 0;
		thread->noted = 0;
	}
	thread->named_as = 0;
	if (!(name & FG_RUNNABLE))
		__sync_fetch_and_add(&all->page.named, -1);
}

/* In its domain's table alone. The CPU is the one that the thread loses. */
static __always_inline void publish_name(struct fg_thread_record *thread, __u32 name, __u32 life, __u32 cpu,
					 struct fg_published *all)
{
	if (life & FG_NOTE_LIFE) {
		thread->noted = (life & FG_NOTE_LIFE) | (cpu < FG_NOTE_NO_CPU ? cpu : FG_NOTE_NO_CPU)
								<< FG_NOTE_CPU_SHIFT;
		WRITE_ONCE(*note_of(name, thread->domain, all), thread->noted);
	}
	WRITE_ONCE(*place_of(name, thread->domain, all), name);
	thread->named_as = name;
	if (!(name & FG_RUNNABLE)) /* the others are counted */
		__sync_fetch_and_add(&all->page.named, 1);
}

#endif
