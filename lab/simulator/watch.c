/* SPDX-License-Identifier: MIT */
/* The Preemption Monitor at a switch, and what it costs. */
#include "abi/flexguard_abi.h"
#include "runtime/block.h"
#include "runtime/monitor.h"
#include "simulator/engine.h"
#include "simulator/monitor.h"

#define FIRST_TID 1000

static struct fgs_task *idle[FGS_CPUS];
static bool active;

void fgs_watch_start(bool monitored)
{
	struct fg_published *published = fgs_monitor_start(fgs_cpu_count, fgs_cost(FGS_tick) / FGS_NS);

	active = monitored;
	for (uint32_t i = 0; i < fgs_cpu_count; i++)
		idle[i] = fgs_monitor_idle_task();
	if (monitored)
		fgi_monitor_attach_all(published, 0);
}

void fgs_watch_thread(struct fgs_thread *t)
{
	t->task = fgs_monitor_task(FIRST_TID + (int)t->id, FIRST_TID + (int)(FGS_THREADS * t->process), t->process == 0,
				   t->thread_pointer);
}

/* `held`, or the word that it is about to take, has just released, or owns. */
bool fgs_watch_holds(const struct fgs_thread *t)
{
	static ptrdiff_t offset;
	const struct fg_thread_block *b;

	if (t->process)
		return false;
	if (!offset)
		offset = (char *)&fg_thread - (char *)__builtin_thread_pointer();
	b = (const struct fg_thread_block *)(t->thread_pointer + (uint64_t)offset);
	return b->held > 0 ||
	       (b->pending && b->self && (*(uint32_t *)(uintptr_t)b->pending & FG_OWNER_MASK) == b->self);
}

static struct fgs_task_state state_of(const struct fgs_cpu *c, const struct fgs_thread *t, uint64_t since_ns)
{
	return (struct fgs_task_state){t->vruntime,   t->deadline, t->deadline, t->weight,
				       c->queued + 1, since_ns,    t->policy};
}

void fgs_watch_switch(struct fgs_cpu *c, struct fgs_thread *before, struct fgs_thread *after, bool runnable)
{
	uint64_t now_ns = FGS_EPOCH_NS + c->now / FGS_NS;
	struct fgs_task_state of_before, of_after;
	struct fgs_cpu *here = fgs_here;
	bool in_kernel = fgs_in_kernel;

	if (!active)
		return;
	if (before)
		of_before = state_of(c, before, now_ns);
	if (after)
		of_after = state_of(c, after, now_ns);
	c->now += fgs_cost(FGS_monitor);
	fgs_here = c;
	fgs_in_kernel = true;
	fgs_monitor_switch(before ? before->task : idle[c->id], after ? after->task : idle[c->id], runnable,
			   before ? &of_before : NULL, after ? &of_after : NULL);
	fgs_in_kernel = in_kernel;
	fgs_here = here;
}
