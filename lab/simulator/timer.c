/* SPDX-License-Identifier: MIT */
/* The timers of each CPU. The first of them interrupts it, when its slack is over; an interrupt serves all timers of
 * that CPU that are due without their slack, so sleepers of one CPU wake up together, most of them early. To make the
 * processor's own timer interrupt at another time costs `timer_set`, which a virtual machine spends outside of it. */
#include "simulator/engine.h"

/* After the first of the list has changed. */
static void follow(const struct fgs_cpu *c)
{
	fgs_interrupt_at(c, c->timers ? c->timers->timer.last + fgs_cost(FGS_timer_late) : FGS_NEVER);
}

static void take_out(struct fgs_thread *t)
{
	struct fgs_thread **at = &t->timer.cpu->timers;

	while (*at != t)
		at = &(*at)->timer.next;
	*at = t->timer.next;
	t->timer.cpu = NULL;
}

void fgs_timer_cancel(void)
{
	struct fgs_thread *t = fgs_self();
	struct fgs_cpu *c = t->timer.cpu;
	bool first = c && c->timers == t;

	if (!c)
		return;
	take_out(t);
	if (!first)
		return;
	follow(c);
	if (c == fgs_here)
		c->now += fgs_cost(FGS_timer_set);
}

void fgs_timer_set(fgs_ps earliest)
{
	struct fgs_cpu *c = fgs_here;
	struct fgs_thread *t = c->thread, **at = &c->timers;
	fgs_ps last = earliest + t->slack;

	fgs_timer_cancel();
	while (*at && (*at)->timer.last <= last)
		at = &(*at)->timer.next;
	t->timer = (struct fgs_timer){c, earliest, last, t->generation, *at};
	*at = t;
	if (c->timers != t)
		return;
	follow(c);
	if (last < c->next_tick)
		c->now += fgs_cost(FGS_timer_set);
}

void fgs_timer_interrupts(struct fgs_cpu *c, fgs_ps now)
{
	struct fgs_thread **at = &c->timers;

	while (*at && (*at)->timer.earliest <= now) {
		struct fgs_thread *t = *at;
		bool waits = t->state == FGS_SLEEPING && t->timer.generation == t->generation;

		*at = t->timer.next;
		t->timer.cpu = NULL;
		if (waits) {
			t->timed_out = true;
			fgs_timer_wakes(t, now, fgs_cost(FGS_timer_late));
		}
		c->debt += fgs_cost(FGS_timer_fires);
	}
	c->debt += fgs_cost(FGS_timer_set);
	follow(c);
}
