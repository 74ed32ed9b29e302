/* SPDX-License-Identifier: MIT */
/* The Preemption Monitor: what bpf/monitor.bpf.c does at a switch. */
#include <stdlib.h>

#include "abi/flexguard_abi.h"
#include "runtime/block.h"
#include "runtime/monitor.h"
#include "simulator/engine.h"

struct fgs_task {
	const struct fg_thread_block *block;
	bool counted;
	uint32_t name;
};

struct per_cpu {
	uint32_t process;
	bool process_waits, said_to_wait;
	fgs_ps since;
};

static struct fg_published published __attribute__((aligned(FG_PAGE)));
static struct fg_shared *const page = &published.page;
static struct per_cpu per_cpu[FGS_CPUS];
static bool active;

void fgs_watch_start(bool monitored)
{
	active = monitored;
	page->magic = FG_ABI_MAGIC;
	page->version = FG_ABI_VERSION;
	page->heartbeat_ns = UINT64_MAX / 4; /* later than any time: it lives */
	page->any_process = 1;
	page->cpus = fgs_cpu_count;
	page->tick_ns = fgs_cost(FGS_tick) / FGS_NS;
	for (uint32_t i = 0; i < fgs_cpu_count && i < FG_CPUS; i++)
		page->cpu_idle[i] = 1;
	if (monitored)
		fgi_monitor_attach(page);
}

void fgs_watch_thread(struct fgs_thread *t)
{
	static ptrdiff_t offset;

	if (!offset)
		offset = (char *)&fg_thread - (char *)__builtin_thread_pointer();
	t->task = calloc(1, sizeof(*t->task));
	if (!t->task)
		fgs_fail("not enough memory");
	t->task->block = (const struct fg_thread_block *)(t->thread_pointer + (uint64_t)offset);
}

static bool is_holder(const struct fg_thread_block *b)
{
	return b->held > 0 ||
	       (b->pending && b->self && (*(uint32_t *)(uintptr_t)b->pending & FG_OWNER_MASK) == b->self);
}

bool fgs_watch_holds(const struct fgs_thread *t)
{
	return t->task && is_holder(t->task->block);
}

static bool is_next(const struct fg_thread_block *b)
{
	return b->node && ((const struct fg_queue_node *)(uintptr_t)b->node)->state == FG_NODE_GRANTED;
}

static int uncount(struct fgs_cpu *c, const struct fgs_thread *t)
{
	int was;

	if (!t || !t->task)
		return 0;
	if (t->task->name) {
		uint32_t *place = &page->off_cpu[fg_off_cpu_place(t->task->name & FG_OWNER_MASK)];

		fgs_kernel_access(c, place, FGS_STORE);
		if (*place == t->task->name)
			*place = 0;
		if (!(t->task->name & FG_RUNNABLE)) {
			page->named--;
			fgs_kernel_access(c, &page->named, FGS_CHANGE);
		}
		t->task->name = 0;
	}
	was = t->task->counted;
	t->task->counted = false;
	return was;
}

static int judge(struct fgs_cpu *c, const struct fgs_thread *t, bool runnable)
{
	const struct fg_thread_block *b;
	bool holder;
	int counted = 0;

	if (!t || !t->task)
		return 0;
	b = t->task->block;
	holder = is_holder(b);
	if (runnable && (holder || is_next(b))) {
		fgs_kernel_access(c, &page->preemptions[c->id % FG_COUNT_LINES], FGS_CHANGE);
		if (holder)
			page->preemptions[c->id % FG_COUNT_LINES].holders++;
		else
			page->preemptions[c->id % FG_COUNT_LINES].next_waiters++;
		t->task->counted = true;
		counted = 1;
	}
	if (b->self && (counted || holder)) {
		uint32_t *place = &page->off_cpu[fg_off_cpu_place(b->self)];

		fgs_kernel_access(c, place, FGS_STORE);
		*place = t->task->name = b->self | (runnable ? FG_RUNNABLE : 0);
		if (!runnable) {
			page->named++;
			fgs_kernel_access(c, &page->named, FGS_CHANGE);
		}
	}
	return counted;
}

static void publish_cpu(struct fgs_cpu *c, const struct fgs_thread *before, const struct fgs_thread *after,
			bool runnable)
{
	struct per_cpu *p = &per_cpu[c->id];
	__typeof__(&page->process_switch[0][0]) last =
		&page->process_switch[c->id % FG_SWITCH_LINES][c->id / FG_SWITCH_LINES];

	if (!before || !after) {
		fgs_kernel_access(c, &page->cpu_idle[c->id], FGS_STORE);
		page->cpu_idle[c->id] = !after;
	}
	if (before && p->process == before->process + 1)
		p->process_waits = runnable;
	if (after && p->process != after->process + 1) {
		uint64_t us = (c->now - p->since) / FGS_US;

		fgs_kernel_access(c, last, FGS_STORE);
		last->stay = (uint16_t)((us < FG_STAY_US ? us : FG_STAY_US) | (p->process_waits ? FG_STAY_WAITS : 0));
		last->number++;
		p->said_to_wait = p->process_waits;
		p->process_waits = false;
		p->process = after->process + 1;
		p->since = c->now;
	} else if (!after) {
		p->process_waits = false;
		if (p->said_to_wait) {
			fgs_kernel_access(c, last, FGS_STORE);
			last->stay &= FG_STAY_US;
			p->said_to_wait = false;
		}
	}
}

void fgs_watch_switch(struct fgs_cpu *c, struct fgs_thread *before, struct fgs_thread *after, bool runnable)
{
	int change;

	if (!active)
		return;
	c->now += fgs_cost(FGS_monitor);
	fgs_kernel_access(c, &page->num_preempted_cs, FGS_LOAD);
	fgs_kernel_access(c, &page->named, FGS_LOAD);
	change = -uncount(c, after);
	change -= uncount(c, before);
	change += judge(c, before, runnable);
	if (change) {
		fgs_kernel_access(c, &page->num_preempted_cs, FGS_CHANGE);
		if (change > 0 && page->num_preempted_cs == 0) {
			page->mode_transitions++;
			fgs_kernel_access(c, &page->mode_transitions, FGS_CHANGE);
		}
		page->num_preempted_cs += (uint32_t)change;
	}
	if (c->id < FG_CPUS)
		publish_cpu(c, before, after, runnable);
}
