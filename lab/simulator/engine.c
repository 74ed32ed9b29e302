/* SPDX-License-Identifier: MIT */
/* The order of events: which CPU goes on, and until when. */
#include "simulator/engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "simulator/limits.h"
#include "simulator/virtual.h"

struct fgs_machine fgs_machine;
struct fgs_cpu fgs_cpus[FGS_CPUS];
uint32_t fgs_cpu_count;
struct fgs_thread *fgs_threads[FGS_THREADS];
uint32_t fgs_thread_count;
struct fgs_cpu *fgs_here;
bool fgs_in_kernel;
fgs_ps fgs_limit, fgs_exact, fgs_stop;
struct fgs_statistics fgs_statistics;
uint64_t fgs_lagging[FGS_WORDS];
const bool fgs_checks = false;

void fgs_fail(const char *format, ...)
{
	va_list arguments;

	fflush(stdout);
	fputs("fg-sim: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	fgs_trace_end();
	_exit(FGS_STUCK);
}

/* ---- chance ----------------------------------------------------------------------------------------------------- */

static uint64_t random_state;

uint64_t fgs_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state * 0x2545f4914f6cdd1dull;
}

double fgs_plus_minus(void)
{
	return (double)(int64_t)fgs_random() * 0x1p-63;
}

fgs_ps fgs_about(fgs_ps time, double part)
{
	return (fgs_ps)((double)time * (1 + part * fgs_plus_minus()));
}

/* ---- what comes first: a tree of which each node is the earlier of its two -------------------------------------- */

struct order {
	fgs_ps when[FGS_CPUS];
	uint16_t earliest[2 * FGS_CPUS];
};

static struct order cpus, interrupts; /* when each CPU goes on; when its timer interrupts it */
static uint32_t leaves;               /* a power of 2 */

static void put(struct order *o, uint32_t cpu, fgs_ps when)
{
	o->when[cpu] = when;
	for (uint32_t i = (leaves + cpu) / 2; i; i /= 2) {
		uint16_t left = o->earliest[2 * i], right = o->earliest[2 * i + 1];

		o->earliest[i] = o->when[right] < o->when[left] ? right : left;
	}
}

static void place(uint32_t cpu, fgs_ps when)
{
	put(&cpus, cpu, fgs_cpus[cpu].off ? FGS_NEVER : when);
}

static void plant(struct order *o)
{
	for (leaves = 1; leaves < fgs_cpu_count;)
		leaves *= 2;
	for (uint32_t i = 0; i < FGS_CPUS; i++)
		o->when[i] = FGS_NEVER;
	for (uint32_t i = 0; i < leaves; i++)
		o->earliest[leaves + i] = (uint16_t)i;
	for (uint32_t i = 0; i < leaves; i++)
		put(o, i, FGS_NEVER);
}

static uint16_t first_of(const struct order *o)
{
	return leaves == 1 ? 0 : o->earliest[1];
}

void fgs_interrupt_at(const struct fgs_cpu *c, fgs_ps when)
{
	put(&interrupts, c->id, when);
	if (when < fgs_exact) {
		fgs_exact = when;
		fgs_limit = when + FGS_TOLERANCE;
	}
}

/* ---- lagging ---------------------------------------------------------------------------------------------------- */

static void stop_lagging(struct fgs_cpu *c)
{
	if (c->lags) {
		c->lags = false;
		fgs_lagging[c->word] &= ~c->bit;
	}
}

static void lag(struct fgs_cpu *c)
{
	c->lags = true;
	fgs_lagging[c->word] |= c->bit;
	place(c->id, c->now + FGS_LAG);
}

void fgs_cpu_at(struct fgs_cpu *c, fgs_ps when)
{
	stop_lagging(c);
	place(c->id, when);
	if (fgs_here && c != fgs_here && when < fgs_exact) {
		fgs_exact = when;
		fgs_limit = when + FGS_TOLERANCE;
	}
}

bool fgs_has_laggards(const struct fgs_line *l, const struct fgs_cpu *c)
{
	for (uint32_t w = 0; w < FGS_WORDS; w++)
		for (uint64_t m = l->copies[w] & fgs_lagging[w]; m; m &= m - 1)
			if (fgs_cpus[w * 64 + (uint32_t)__builtin_ctzll(m)].now < c->now)
				return true;
	return false;
}

void fgs_lose_copies(const struct fgs_line *l)
{
	for (uint32_t w = 0; w < FGS_WORDS; w++)
		for (uint64_t m = l->copies[w] & fgs_lagging[w]; m; m &= m - 1) {
			struct fgs_cpu *c = &fgs_cpus[w * 64 + (uint32_t)__builtin_ctzll(m)];

			if (c != fgs_here)
				fgs_cpu_at(c, c->now);
		}
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

static enum { TURN, SLEEP, YIELD, LINE, CATCH_UP, MOVE, EXIT, PAUSE_EXIT, END } left_for;
static enum fgs_leaves exits;
static const struct fgs_line *caught_up;

static void leave(int why)
{
	left_for = why;
	fgs_switch_back(fgs_self());
}

void fgs_turn(void)
{
	leave(TURN);
}

void fgs_settle(void)
{
	while (fgs_here->now > fgs_exact)
		fgs_turn();
}

void fgs_sleep(void)
{
	fgs_self()->state = FGS_SLEEPING;
	leave(SLEEP);
}

void fgs_yield(void)
{
	leave(YIELD);
}

void fgs_move(void)
{
	fgs_self()->state = FGS_SLEEPING;
	leave(MOVE);
}

void fgs_exit(enum fgs_leaves why)
{
	exits = why;
	leave(EXIT);
}

void fgs_pause_exit(void)
{
	leave(PAUSE_EXIT);
}

void fgs_catch_up(struct fgs_line *l)
{
	caught_up = l;
	leave(CATCH_UP);
}

void fgs_thread_ends(void)
{
	fgs_self()->state = FGS_ENDED;
	leave(END);
	__builtin_unreachable();
}

void fgs_wait_for_line(struct fgs_line *l)
{
	struct fgs_cpu *c = fgs_here;

	c->line = l;
	c->asked = c->now;
	c->bypassed = 0;
	c->next_waiter = 0;
	if (l->first)
		fgs_cpus[l->last - 1].next_waiter = (uint16_t)(c->id + 1);
	else
		l->first = (uint16_t)(c->id + 1);
	l->last = (uint16_t)(c->id + 1);
	leave(LINE);
}

/* Lets the CPU's thread run, no further than `horizon` where others see what it does. */
static void run(struct fgs_cpu *c, fgs_ps horizon)
{
	if (horizon > c->next_tick)
		horizon = c->next_tick;
	fgs_exact = horizon;
	fgs_limit = horizon + FGS_TOLERANCE;
	if (fgs_limit > c->next_tick)
		fgs_limit = c->next_tick;
	fgs_stop = c->now + FGS_LEAD;
	if (fgs_stop > c->next_tick)
		fgs_stop = c->next_tick;
	stop_lagging(c);
	place(c->id, FGS_NEVER);
	fgs_here = c;
	fgs_switch_to(c->thread);
	fgs_here = NULL;
}

static void has_left(struct fgs_cpu *c)
{
	struct fgs_thread *t = c->thread;

	switch (left_for) {
	case TURN:
		if (c->paused && c->now < c->next_tick && !c->resched && !c->leaves)
			lag(c);
		else
			place(c->id, c->now);
		break;
	case CATCH_UP:
		place(c->id, c->now);
		break;
	case LINE:
		place(c->id, c->line->first == c->id + 1 ? c->line->free_at : FGS_NEVER);
		break;
	case SLEEP:
		c->paused = false;
		fgs_schedule(c, FGS_SLEEPS);
		break;
	case MOVE:
		fgs_schedule(c, FGS_SLEEPS);
		fgs_wake(t, c->now, NULL);
		break;
	case EXIT:
		fgs_virtual_leaves(c, exits);
		break;
	case PAUSE_EXIT:
		fgs_virtual_spins(c);
		break;
	case END:
		fgs_schedule(c, FGS_SLEEPS);
		if (t->joiner)
			fgs_wake(t->joiner, c->now, NULL);
		break;
	case YIELD:
		c->paused = false;
		fgs_schedule(c, FGS_YIELDS);
		break;
	}
}

static void catch_up(const struct fgs_line *l, fgs_ps to)
{
	for (uint32_t w = 0; w < FGS_WORDS; w++)
		for (uint64_t m = l->copies[w] & fgs_lagging[w]; m; m &= m - 1) {
			struct fgs_cpu *c = &fgs_cpus[w * 64 + (uint32_t)__builtin_ctzll(m)];

			if (!c->lags || c->now >= to)
				continue;
			if (c->now >= c->next_tick || c->resched || c->leaves) { /* it goes first, and leaves its CPU */
				fgs_cpu_at(c, c->now);
				continue;
			}
			fgs_statistics.caught_up++;
			run(c, to);
			has_left(c);
		}
}

static fgs_ps horizon(void)
{
	fgs_ps next = cpus.when[first_of(&cpus)], interrupt = interrupts.when[first_of(&interrupts)];

	if (interrupt < next)
		next = interrupt;
	if (fgs_period_ends < next)
		next = fgs_period_ends;
	return next < FGS_NEVER / 2 ? next : FGS_NEVER / 2;
}

static void go_on(struct fgs_cpu *c)
{
	place(c->id, FGS_NEVER);
	if (c->line) {
		fgs_ps at = c->line->free_at;

		fgs_arbitrate(c->line, &c);
		if (c->now < at)
			c->now = at;
	} else if (!c->granted) {
		c->now += c->debt;
		c->debt = 0;
		if (c->leaves) {
			fgs_virtual_leaves(c, FGS_PREEMPTED);
			return;
		}
		if (c->thread && c->now >= c->next_tick)
			fgs_tick(c);
		if (!c->thread || (c->resched && !c->thread->stays)) {
			fgs_schedule(c, c->thread ? FGS_PREEMPTED : FGS_GOES_ON);
			return;
		}
	}
	run(c, horizon());
	if (left_for == CATCH_UP) {
		const struct fgs_line *l = caught_up;

		has_left(c);
		catch_up(l, c->now);
	} else {
		has_left(c);
	}
}

/* ---- limits ----------------------------------------------------------------------------------------------------- */

struct fgs_limits fgs_limits = {.virtual_seconds = 3600, .host_seconds = 600};

/* Of the CPU: other work on the host ends no run. */
static time_t host_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec;
}

static void check_limits(fgs_ps now, time_t began)
{
	if ((double)now * 1e-12 > fgs_limits.virtual_seconds)
		fgs_fail("the virtual clock has reached %g s (--virtual-limit): a thread does not end",
			 fgs_limits.virtual_seconds);
	if ((double)(host_seconds() - began) > fgs_limits.host_seconds)
		fgs_fail("%g s are over (--host-limit), after %.3f ms of virtual time", fgs_limits.host_seconds,
			 (double)now * 1e-9);
}

void fgs_engine_start(uint64_t seed)
{
	random_state = 88172645463325252ull + seed * 0x9e3779b97f4a7c15ull;
	if (!random_state)
		random_state = 1;
	fgs_cpu_count = fgs_virtual_count(&fgs_machine) + fgs_machine_topology(&fgs_machine);
	fgs_lines_start(&fgs_machine);
	plant(&cpus);
	plant(&interrupts);
}

/* Each thread that a futex keeps, by what the futex is, and its value. */
static void tell_sleepers(void)
{
	for (uint32_t i = 0; i < fgs_thread_count; i++) {
		const struct fgs_thread *t = fgs_threads[i];
		char where[64] = "";

		if (!t->bucket)
			continue;
		fgs_symbol((uintptr_t)t->word & ~63ull, where, sizeof(where));
		fprintf(stderr, "fg-sim: thread %u sleeps on a futex of %s: 0x%x\n", i, where, *t->word);
	}
}

void fgs_engine_run(const struct fgs_thread *last)
{
	time_t began = host_seconds();
	fgs_ps last_moment = (fgs_ps)(fgs_limits.virtual_seconds * 1e12);

	while (last->state != FGS_ENDED) {
		struct fgs_cpu *c = &fgs_cpus[first_of(&cpus)], *interrupted = &fgs_cpus[first_of(&interrupts)];
		fgs_ps when = cpus.when[c->id], interrupt = interrupts.when[interrupted->id];
		fgs_ps next = interrupt < when ? interrupt : when; /* FGS_NEVER: all CPUs idle, and there is no timer */

		if (fgs_period_ends <= next && (next != FGS_NEVER || fgs_throttled)) {
			check_limits(fgs_period_ends, began);
			fgs_new_period();
			continue;
		}
		if (next != FGS_NEVER && (++fgs_statistics.events % 256 == 0 || next > last_moment))
			check_limits(next, began);
		if (interrupt <= when && interrupt != FGS_NEVER) {
			fgs_timer_interrupts(interrupted, interrupt);
			continue;
		}
		if (c->hosts && when != FGS_NEVER) {
			c->now = c->now < when ? when : c->now;
			fgs_cpu_at(c, FGS_NEVER);
			fgs_host_goes_on(c);
			continue;
		}
		if (when == FGS_NEVER) {
			tell_sleepers();
			fgs_fail("every thread sleeps, and none will be woken (a lost wake-up or a deadlock)");
		}
		go_on(c);
	}
}
