/* SPDX-License-Identifier: MIT */
/* In place of engine.c and sched.c: which of a few threads makes the next step is chosen at random, and not by time. A
 * step is an access to memory, a spin hint or a call. Each thread has a CPU of its own, so that it may be stopped, as
 * by a preemption, before any of them and for any number of the others'.
 *
 *   random     each step is of another thread with a probability that the seed chooses
 *   PCT        the thread of the highest priority goes on; at a few steps, which the seed chooses, it gets the lowest
 *              (Burckhardt et al.: A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs. ASPLOS 2010).
 *              One that pauses or yields gets the lowest, too, at once or in the end: it waits for another
 *
 * Time passes with each step, now and then by a leap, so that spinning ends and timeouts come at any step.
 *
 * Stores are seen in their order, and at once: what a store buffer makes of them is not checked. */
#include <linux/rseq.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "simulator/check/schedule.h"
#include "simulator/engine.h"
#include "simulator/futex.h"

extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

#define STEP (2 * FGS_NS)
#define LEAPS 18         /* of 2^0 to 2^17 ns */
#define UNFAIR 200000u   /* steps without progress, after which each thread goes on as often as the others */
#define HOPELESS 600000u /* so many: it is stuck */
#define CHANGES 4u
#define LUCK 64u /* steps after which an unlucky thread may go on nevertheless */
#define MOST_CPUS 16u

struct fgs_machine fgs_machine;
struct fgs_cpu fgs_cpus[FGS_CPUS];
uint32_t fgs_cpu_count = MOST_CPUS;
struct fgs_thread *fgs_threads[FGS_THREADS];
uint32_t fgs_thread_count;
struct fgs_cpu *fgs_here;
bool fgs_in_kernel;
fgs_ps fgs_limit, fgs_exact, fgs_stop; /* 0: each access is a step */
struct fgs_statistics fgs_statistics;
uint64_t fgs_lagging[FGS_WORDS];
const bool fgs_checks = true;

static struct {
	fgs_ps now;
	uint64_t steps, since; /* in all; since a thread has got on */
	uint64_t random;
	bool pct;
	uint32_t leave_of_256; /* random: how often another thread goes on */
	uint64_t change[CHANGES];
	uint32_t gives_way; /* PCT: one in so many pauses */
	int64_t priority[FGS_THREADS], lowest;
	uint64_t stall_ns;
	struct fgs_thread *next;
	uint32_t *flipped;
	const uint64_t *busy; /* NULL: no thread is unlucky */
	uint32_t unlucky;     /* its number */
	uint64_t idle_since;  /* the step at which `busy` became 0 */
} run;

struct timer {
	fgs_ps when;
	uint32_t generation;
};
static struct timer timers[FGS_THREADS]; /* a thread has one at most */

void fgs_fail(const char *format, ...)
{
	va_list arguments;

	fputs("fg-check: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fprintf(stderr, " (after %lu steps)\n", (unsigned long)run.steps);
	_exit(1);
}

/* ---- chance ----------------------------------------------------------------------------------------------------- */

uint64_t fgs_random(void)
{
	run.random ^= run.random << 13;
	run.random ^= run.random >> 7;
	run.random ^= run.random << 17;
	return run.random * 0x2545f4914f6cdd1dull;
}

double fgs_plus_minus(void)
{
	return 0;
}

fgs_ps fgs_about(fgs_ps time, double part)
{
	(void)part;
	return time;
}

/* One in `n`. */
static bool one_in(uint32_t n)
{
	return (fgs_random() >> 33) % n == 0;
}

/* ---- what a schedule is ----------------------------------------------------------------------------------------- */

void fgs_schedule_start(uint64_t seed)
{
	static const uint32_t often[] = {2, 8, 32, 128}, pauses[] = {1, 16, 64, 256};

	run.random = seed * 0x9e3779b97f4a7c15ull + 88172645463325252ull;
	if (!run.random)
		run.random = 1;
	for (int i = 0; i < 4; i++)
		fgs_random();
	run.pct = fgs_random() >> 63;
	run.leave_of_256 = often[fgs_random() >> 62];
	run.gives_way = pauses[fgs_random() >> 62];
	for (uint32_t i = 0; i < CHANGES; i++)
		run.change[i] = (fgs_random() >> 32) % (64ull << (fgs_random() >> 61));
	for (uint32_t i = 0; i < FGS_THREADS; i++)
		run.priority[i] = (int64_t)(fgs_random() >> 2);
	fgs_tid_stride = fgs_random() >> 63 ? 1 : 1024;
	run.now = FGS_US;
	for (uint32_t i = 0; i < MOST_CPUS; i++)
		fgs_cpus[i] = (struct fgs_cpu){
			.id = i, .word = 0, .bit = 1ull << i, .queued = 1, .slower = 1, .now = run.now};
}

void fgs_check_progress(void)
{
	run.since = 0;
}

void fgs_check_stall(uint64_t us)
{
	run.stall_ns = us * 1000;
}

void fgs_check_flip(uint32_t *word)
{
	run.flipped = word;
}

void fgs_check_unlucky(unsigned int index, const uint64_t *busy)
{
	run.unlucky = index + 1;
	run.busy = busy;
	run.pct = false; /* there a thread may go on alone */
}

void fgs_check_fork(void)
{
	for (uint32_t i = 0; i < fgs_thread_count; i++) {
		struct fgs_thread *t = fgs_threads[i];

		if (t == fgs_self())
			continue;
		fgs_futex_forget(t);
		timers[i].when = 0;
		t->state = FGS_SLEEPING; /* for ever */
	}
}

void fgs_check_end(void)
{
	_exit(0);
}

uint64_t fgs_check_wakes(void)
{
	return fgs_futex_counts.wakes;
}

/* ---- which thread goes on --------------------------------------------------------------------------------------- */

static bool is_runnable(const struct fgs_thread *t)
{
	return t->state == FGS_RUNNABLE || t->state == FGS_RUNNING;
}

static bool has_bad_luck(const struct fgs_thread *t)
{
	return run.busy && t->id == run.unlucky && !*run.busy && run.steps - run.idle_since < LUCK;
}

/* `but`: not this one. */
static struct fgs_thread *any_but(const struct fgs_thread *but)
{
	uint32_t count = 0, chosen;

	for (uint32_t i = 0; i < fgs_thread_count; i++)
		count += is_runnable(fgs_threads[i]) && fgs_threads[i] != but;
	if (!count)
		return NULL;
	chosen = (uint32_t)(fgs_random() >> 33) % count;
	for (uint32_t i = 0;; i++)
		if (is_runnable(fgs_threads[i]) && fgs_threads[i] != but && chosen-- == 0)
			return fgs_threads[i];
}

static struct fgs_thread *any(void)
{
	struct fgs_thread *t = any_but(NULL), *other = t && has_bad_luck(t) ? any_but(t) : NULL;

	return other ? other : t;
}

static struct fgs_thread *first(void)
{
	struct fgs_thread *found = NULL;

	for (uint32_t i = 0; i < fgs_thread_count; i++)
		if (is_runnable(fgs_threads[i]) && (!found || run.priority[i] > run.priority[found->id]))
			found = fgs_threads[i];
	return found;
}

static struct fgs_thread *choose(struct fgs_thread *self)
{
	if (run.since > UNFAIR)
		return any();
	if (run.pct) {
		for (uint32_t i = 0; self && i < CHANGES; i++)
			if (run.change[i] == run.steps)
				run.priority[self->id] = --run.lowest;
		return first();
	}
	if (self && is_runnable(self) && !has_bad_luck(self) && (fgs_random() >> 56) >= run.leave_of_256)
		return self;
	return any();
}

/* ---- time ------------------------------------------------------------------------------------------------------- */

static void fire(void)
{
	for (uint32_t i = 0; i < fgs_thread_count; i++) {
		struct fgs_thread *t = fgs_threads[i];

		if (t->state != FGS_SLEEPING || !timers[i].when || timers[i].when > run.now ||
		    timers[i].generation != t->generation)
			continue;
		timers[i].when = 0;
		t->timed_out = true;
		t->state = FGS_RUNNABLE;
	}
}

static void pass_time(bool waits)
{
	run.now += STEP;
	if (one_in(waits ? 16 : 256))
		run.now += FGS_NS << (fgs_random() >> 33) % LEAPS;
	fire();
}

void fgs_timer_set(fgs_ps earliest)
{
	const struct fgs_thread *t = fgs_self();

	timers[t->id] = (struct timer){earliest + t->slack, t->generation};
}

void fgs_pause_exit(void)
{
}

void fgs_timer_cancel(void)
{
	timers[fgs_self()->id].when = 0;
}

/* It sleeps by the clock alone: not in a futex, or in one of its own stack that is 0 (fgi_nap). */
static bool naps(const struct fgs_thread *t)
{
	bool on_stack = t->bucket && ((uintptr_t)t->word - FGS_ARENA) / FGS_STACK == t->id;

	return !t->bucket || (on_stack && *t->word == 0);
}

/* Where each thread is that has not ended. */
static void tell_threads(void)
{
	static const char *const states[] = {"can go on", "runs", "sleeps", "has ended"};

	for (uint32_t i = 0; i < fgs_thread_count; i++) {
		const struct fgs_thread *t = fgs_threads[i];
		char where[64] = "";

		if (t->state == FGS_ENDED)
			continue;
		if (t->bucket)
			fgs_symbol((uintptr_t)t->word & ~63ull, where, sizeof(where));
		fprintf(stderr, "fg-check: thread %d %s%s%s\n", (int)i - 1, states[t->state],
			t->bucket ? " on a futex at " : "", where);
	}
}

/* Nobody can go on: the first timer ends that. */
static void leap_to_timer(void)
{
	fgs_ps next = FGS_NEVER;
	bool nap = false;

	for (uint32_t i = 0; i < fgs_thread_count; i++) {
		const struct fgs_thread *t = fgs_threads[i];

		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): below the count each is a thread */
		if (t->state != FGS_SLEEPING || !timers[i].when || timers[i].generation != t->generation)
			continue;
		nap |= naps(t);
		if (timers[i].when < next)
			next = timers[i].when;
	}
	if (next == FGS_NEVER || (!nap && next > run.now + run.stall_ns * FGS_NS))
		tell_threads();
	if (next == FGS_NEVER)
		fgs_fail("lost wake-up: every thread sleeps, and none will be woken");
	if (!nap && next > run.now + run.stall_ns * FGS_NS)
		fgs_fail("lost wake-up: every thread sleeps, until a timeout after %lu us",
			 (unsigned long)((next - run.now) / FGS_US));
	run.now = next;
	fire();
}

/* ---- a step ----------------------------------------------------------------------------------------------------- */

static void flip(void)
{
	if (run.flipped && one_in(128))
		*run.flipped = (uint32_t)(fgs_random() >> 33) % 3;
}

/* The thread has come to its next step. */
void fgs_turn(void)
{
	struct fgs_cpu *c = fgs_here;
	struct fgs_thread *self = c->thread;
	bool waits = c->paused;

	c->paused = false;
	fgs_nodes_step(self);
	run.steps++;
	run.since++;
	if (run.busy && *run.busy)
		run.idle_since = run.steps;
	if (run.since == HOPELESS)
		tell_threads();
	if (run.since > HOPELESS)
		fgs_fail("no thread has got on for %u steps", HOPELESS);
	if (c->now > run.now)
		run.now = c->now;
	flip();
	pass_time(waits);
	if (waits && self->state == FGS_RUNNING && one_in(run.gives_way))
		run.priority[self->id] = --run.lowest;
	run.next = choose(self);
	if (run.next != self)
		fgs_switch_back(self);
	c->now = run.now;
}

void fgs_settle(void)
{
	fgs_turn();
}

void fgs_sleep(void)
{
	fgs_self()->state = FGS_SLEEPING;
	fgs_turn();
}

void fgs_yield(void)
{
	fgs_here->paused = true;
	fgs_turn();
}

void fgs_move(void)
{
}

void fgs_thread_ends(void)
{
	struct fgs_thread *self = fgs_self();

	self->state = FGS_ENDED;
	if (self->joiner)
		fgs_wake(self->joiner, 0, NULL);
	fgs_turn();
	__builtin_unreachable();
}

void fgs_wake(struct fgs_thread *t, fgs_ps now, struct fgs_cpu *waker)
{
	(void)now;
	(void)waker;
	t->generation++;
	t->state = FGS_RUNNABLE;
}

void fgs_wake_new(struct fgs_thread *t, fgs_ps now)
{
	if (fgs_thread_count > MOST_CPUS)
		fgs_fail("more threads than %u", MOST_CPUS);
	t->cpu = t->id;
	fgs_cpus[t->id].thread = t;
	if (&__rseq_size && __rseq_size) /* the kernel does so no more (fiber.c); libc looks when it makes a thread */
		((struct rseq *)(t->thread_pointer + (uint64_t)__rseq_offset))->cpu_id = t->id;
	fgs_wake(t, now, NULL);
}

void fgs_schedule_run(const struct fgs_thread *last)
{
	run.next = fgs_threads[0];
	while (last->state != FGS_ENDED) {
		struct fgs_thread *t = run.next;

		while (!t) {
			leap_to_timer();
			t = choose(NULL);
		}
		fgs_here = &fgs_cpus[t->id];
		fgs_here->now = run.now;
		t->state = FGS_RUNNING;
		fgs_switch_to(t);
		fgs_here = NULL;
	}
}

/* ---- what has no meaning here ----------------------------------------------------------------------------------- */

void fgs_cpu_at(struct fgs_cpu *c, fgs_ps when)
{
	(void)c;
	(void)when;
}

bool fgs_has_laggards(const struct fgs_line *l, const struct fgs_cpu *c)
{
	(void)l;
	(void)c;
	return false;
}

void fgs_lose_copies(const struct fgs_line *l)
{
	(void)l;
}

void fgs_wait_for_line(struct fgs_line *l)
{
	(void)l;
}

void fgs_catch_up(struct fgs_line *l)
{
	(void)l;
}

void fgs_set_nice(struct fgs_thread *t, int nice)
{
	t->nice = nice;
}

void fgs_mark(void)
{
}
