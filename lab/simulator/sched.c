/* SPDX-License-Identifier: MIT */
/* The scheduler: EEVDF on each CPU, real-time policies before it, where a thread wakes up, how waiting threads reach
 * idle CPUs, and how long a CPU takes to leave an idle state. */
#include <linux/rseq.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "simulator/engine.h"
#include "simulator/virtual.h"

extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

#define WEIGHT 1024u   /* of nice 0 */
#define IDLE_WEIGHT 3u /* of SCHED_IDLE */
#define BALANCE_TICKS 4u

/* The program's CPU quota: what it has used in this period, and until when it may not run. */
static fgs_ps quota, used;
fgs_ps fgs_period_ends = FGS_NEVER;
bool fgs_throttled;

static struct fgs_set idle, crowded; /* CPUs that idle; that have threads which wait */

static void put(struct fgs_set *set, const struct fgs_cpu *c, bool in)
{
	if (in)
		set->word[c->word] |= c->bit;
	else
		set->word[c->word] &= ~c->bit;
}

static bool is_in(const struct fgs_set *set, uint32_t cpu)
{
	return set->word[cpu / 64] >> cpu % 64 & 1;
}

static bool is_idle(const struct fgs_cpu *c)
{
	return !c->thread && !c->queued;
}

void fgs_set_nice(struct fgs_thread *t, int nice)
{
	t->nice = nice;
	t->weight = t->policy == SCHED_IDLE ? IDLE_WEIGHT : (uint32_t)lround(WEIGHT * pow(1.25, -nice));
}

static bool is_real_time(const struct fgs_thread *t)
{
	return t->policy == SCHED_FIFO || t->policy == SCHED_RR;
}

static int64_t virtual(const struct fgs_thread *t, fgs_ps time)
{
	return (int64_t)(t->weight == WEIGHT ? time : time * WEIGHT / t->weight);
}

/* ---- virtual time ----------------------------------------------------------------------------------------------- */

/* The mean of the threads that compete there, by weight. */
static int64_t average(const struct fgs_cpu *c)
{
	int64_t base = c->thread   ? c->thread->vruntime
		       : c->queued ? c->queue[0]->vruntime
				   : c->last_virtual,
		weight = 0;
	double sum = 0;

	for (uint32_t i = 0; i < c->queued; i++) {
		sum += (double)(c->queue[i]->vruntime - base) * c->queue[i]->weight;
		weight += c->queue[i]->weight;
	}
	if (c->thread)
		weight += c->thread->weight;
	return weight ? base + (int64_t)floor(sum / (double)weight) : base;
}

static void account(struct fgs_cpu *c, fgs_ps until)
{
	struct fgs_thread *t = c->thread;
	fgs_ps ran = until > c->began ? until - c->began : 0;

	t->vruntime += virtual(t, ran);
	t->ran += ran;
	c->began = until;
	if (quota && t->process == 0)
		used += ran;
}

void fgs_account(struct fgs_cpu *c)
{
	account(c, c->now);
}

static bool may_run(const struct fgs_thread *t)
{
	return !fgs_throttled || t->process != 0;
}

void fgs_new_period(void)
{
	fgs_ps now = fgs_period_ends;

	used = used > quota ? used - quota : 0; /* what ran on until its tick is missing now */
	fgs_throttled = used >= quota;
	fgs_period_ends += fgs_cost(FGS_period);
	for (uint32_t i = 0; i < fgs_cpu_count; i++) {
		struct fgs_cpu *c = &fgs_cpus[i];

		if (c->thread || !c->queued)
			continue;
		if (c->now < now)
			c->now = now;
		fgs_cpu_at(c, c->now);
	}
}

static uint64_t weight_of(const struct fgs_cpu *c)
{
	uint64_t weight = c->thread ? c->thread->weight : 0;

	for (uint32_t i = 0; i < c->queued; i++)
		weight += c->queue[i]->weight;
	return weight;
}

/* By the lag with which it went to sleep, or came from another CPU; two slices at most, or a tick. It joins the mean,
 * and has its lag after that. */
static void place(const struct fgs_cpu *c, struct fgs_thread *t)
{
	fgs_ps slices = 2 * t->slice, tick = fgs_cost(FGS_tick);
	int64_t most = virtual(t, slices > tick ? slices : tick), lag = t->lag;
	uint64_t weight = weight_of(c);

	if (lag > most)
		lag = most;
	if (lag < -most)
		lag = -most;
	if (weight)
		lag = (int64_t)((double)lag * (double)(weight + t->weight) / (double)weight);
	t->vruntime = average(c) - lag;
	t->deadline = t->vruntime + virtual(t, t->slice);
}

/* ---- the queue -------------------------------------------------------------------------------------------------- */

static void enqueue(struct fgs_cpu *c, struct fgs_thread *t, fgs_ps now)
{
	t->state = FGS_RUNNABLE;
	t->cpu = c->id;
	t->queued_at = now;
	c->queue[c->queued++] = t;
	put(&idle, c, false);
	put(&crowded, c, c->thread);
}

static struct fgs_thread *dequeue(struct fgs_cpu *c, uint32_t i)
{
	struct fgs_thread *t = c->queue[i];

	c->queued--;
	memmove(&c->queue[i], &c->queue[i + 1], (c->queued - i) * sizeof(struct fgs_thread *));
	put(&crowded, c, c->thread && c->queued);
	return t;
}

/* Of two threads, does the first come before the second? `average`: of the CPU. */
static bool precedes(const struct fgs_thread *a, const struct fgs_thread *b, int64_t average)
{
	bool a_eligible = a->vruntime <= average, b_eligible = b->vruntime <= average;

	if (is_real_time(a) || is_real_time(b))
		return is_real_time(a) && (!is_real_time(b) || a->priority > b->priority);
	if (a_eligible != b_eligible)
		return a_eligible;
	return a_eligible ? a->deadline < b->deadline : a->vruntime < b->vruntime;
}

/* The queued thread that comes first; `queued`: none may run. */
static uint32_t best_of(const struct fgs_cpu *c)
{
	int64_t mean = average(c);
	uint32_t best = c->queued;

	for (uint32_t i = 0; c->buddy && i < c->queued; i++)
		if (c->queue[i] == c->buddy && c->buddy->vruntime <= mean)
			return i;
	for (uint32_t i = 0; i < c->queued; i++)
		if (may_run(c->queue[i]) && (best == c->queued || precedes(c->queue[i], c->queue[best], mean)))
			best = i;
	return best;
}

/* ---- idle CPUs -------------------------------------------------------------------------------------------------- */

static fgs_ps exit_latency(const struct fgs_cpu *c, fgs_ps now)
{
	fgs_ps idled = now > c->idle_since ? now - c->idle_since : 0;
	enum fgs_key key = FGS_exit_shallow;

	if (idled > fgs_cost(FGS_deep_after))
		key = FGS_exit_deep;
	else if (idled > fgs_cost(FGS_middle_after))
		key = FGS_exit_middle;
	return fgs_about(fgs_cost(key), fgs_machine.key[FGS_exit_spread]);
}

static bool core_idles(uint32_t cpu)
{
	for (uint32_t w = 0; w < FGS_WORDS; w++)
		if (fgs_places[cpu].in_core[w] & ~idle.word[w])
			return false;
	return true;
}

/* An idle CPU of the set that the thread may use: with an idle core if there is one; the next after `from`. */
static int idle_in(const uint64_t *set, const struct fgs_thread *t, uint32_t from)
{
	int any = -1;

	for (uint32_t i = 0; i <= FGS_WORDS; i++) {
		uint32_t w = (from / 64 + i) % FGS_WORDS;
		uint64_t found = idle.word[w] & set[w] & t->allowed.word[w];

		if (i == 0)
			found &= ~0ull << from % 64;
		else if (i == FGS_WORDS)
			found &= ~(~0ull << from % 64);
		for (; found; found &= found - 1) {
			uint32_t cpu = w * 64 + (uint32_t)__builtin_ctzll(found);

			if (core_idles(cpu))
				return (int)cpu;
			if (any < 0)
				any = (int)cpu;
		}
	}
	return any;
}

static uint32_t allowed_cpu(const struct fgs_thread *t)
{
	for (uint32_t i = 0; i < fgs_cpu_count; i++)
		if (is_in(&t->allowed, i))
			return i;
	return 0;
}

/* Where a thread that wakes up goes: where it was, if that CPU idles; an idle CPU of that complex, or of the waker's;
 * else where it was. */
static uint32_t wake_place(const struct fgs_thread *t, const struct fgs_cpu *waker)
{
	uint32_t before = is_in(&t->allowed, t->cpu) ? t->cpu : allowed_cpu(t);
	int found;

	if (is_in(&idle, before) || !fgs_chance(fgs_machine.key[FGS_scans]))
		return before;
	found = idle_in(fgs_places[before].in_complex, t, before);
	if (found < 0 && waker && fgs_places[waker->id].complex != fgs_places[before].complex)
		found = idle_in(fgs_places[waker->id].in_complex, t, waker->id);
	return found < 0 ? before : (uint32_t)found;
}

static uint32_t load_of(const struct fgs_cpu *c)
{
	return c->queued + (c->thread != NULL);
}

static uint32_t load_in(const uint64_t *set)
{
	uint32_t load = 0;

	for (uint32_t i = 0; i < fgs_cpu_count; i++)
		if (set[i / 64] >> i % 64 & 1)
			load += load_of(&fgs_cpus[i]);
	return load;
}

/* A new thread goes where the least is to do: CPU, then core, then socket. */
static uint32_t new_place(const struct fgs_thread *t)
{
	uint32_t best = allowed_cpu(t);
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 0; i < fgs_cpu_count; i++) {
		uint64_t load;

		if (!is_in(&t->allowed, i) || load_of(&fgs_cpus[i]) > least >> 40)
			continue;
		load = (uint64_t)load_of(&fgs_cpus[i]) << 40 | (uint64_t)load_in(fgs_places[i].in_core) << 20 |
		       load_in(fgs_places[i].in_socket);
		if (load < least) {
			least = load;
			best = i;
		}
	}
	return best;
}

/* ---- costs of a core's threads ---------------------------------------------------------------------------------- */

static void set_costs(struct fgs_cpu *c)
{
	double factor = 1;

	for (uint32_t w = 0; w < FGS_WORDS; w++)
		for (uint64_t m = fgs_places[c->id].in_core[w]; m; m &= m - 1) {
			const struct fgs_cpu *other = &fgs_cpus[w * 64 + (uint32_t)__builtin_ctzll(m)];

			if (other != c && other->thread)
				factor = fgs_machine.key[other->paused ? FGS_smt_pause : FGS_smt];
		}
	c->slower = factor;
	c->hit = (fgs_ps)((double)fgs_cost(FGS_hit) * factor);
	c->atomic = fgs_cost(FGS_atomic);
	c->counter = fgs_cost(FGS_counter);
	c->ordered = fgs_cost(FGS_ordered);
	c->pause = fgs_cost(FGS_pause);
}

static void set_core_costs(const struct fgs_cpu *c)
{
	for (uint32_t w = 0; w < FGS_WORDS; w++)
		for (uint64_t m = fgs_places[c->id].in_core[w]; m; m &= m - 1)
			set_costs(&fgs_cpus[w * 64 + (uint32_t)__builtin_ctzll(m)]);
}

/* ---- waking up -------------------------------------------------------------------------------------------------- */

static void interrupt(struct fgs_cpu *c, fgs_ps now)
{
	c->resched = true;
	c->woken_at = c->now < now ? now : c->now;
	if (c->hosts) {
		fgs_host_interrupts(c, now);
		return;
	}
	if (c->hosted)
		fgs_virtual_wakes(c, now);
	if (c == fgs_here) {
		fgs_stop = fgs_limit = fgs_exact = 0;
		return;
	}
	c->debt += fgs_cost(FGS_interrupt);
	if (c->line)
		return;
	if (c->now < now && c->lags)
		c->now = now;
	fgs_cpu_at(c, c->now);
}

/* Does the thread, which is queued, take the CPU from the one that runs? Not while that one is sure of its slice: it is
 * as long as it has had no more than its share, this thread counted. */
static bool preempts(struct fgs_cpu *c, const struct fgs_thread *t)
{
	const struct fgs_thread *running = c->thread;
	int64_t mean;

	if (is_real_time(t) || is_real_time(running))
		return may_run(t) && precedes(t, running, 0);
	if (running->policy == SCHED_IDLE && t->policy != SCHED_IDLE)
		return true;
	if (t->policy == SCHED_IDLE && running->policy != SCHED_IDLE)
		return false;
	if (c != fgs_here)
		fgs_account(c);
	mean = average(c);
	if (running->vruntime <= mean && running->vruntime < running->protected_until && t->slice >= running->slice)
		return false;
	return may_run(t) && c->queue[best_of(c)] == t && precedes(t, running, mean);
}

/* When the interrupt by `by`, if that is another CPU, has been sent. */
static fgs_ps kick(const struct fgs_cpu *c, struct fgs_cpu *by, fgs_ps now)
{
	if (!by || by == c)
		return now;
	by->now += fgs_cost(FGS_kick);
	return now + fgs_cost(FGS_kick);
}

/* `under_way`: for so long an interrupt has made the CPU leave its idle state. */
static void start_on(struct fgs_cpu *c, struct fgs_thread *t, fgs_ps now, struct fgs_cpu *by, fgs_ps under_way)
{
	bool idles = is_idle(c);

	if (c->hosts && c->now < now)
		c->now = now;
	place(c, t);
	enqueue(c, t, now);
	if (idles && c->hosted) {
		c->now = c->now < now ? now : c->now;
		fgs_virtual_wakes(c, kick(c, by, now));
	} else if (idles) {
		fgs_ps leaves = exit_latency(c, now - under_way);

		now = kick(c, by, now);
		c->now = now + (leaves > under_way ? leaves - under_way : 0);
		c->woken_at = c->now;
		fgs_cpu_at(c, c->now);
	} else if (c->thread && preempts(c, t)) {
		interrupt(c, kick(c, by, now));
	}
}

void fgs_wake(struct fgs_thread *t, fgs_ps now, struct fgs_cpu *waker)
{
	struct fgs_cpu *c = &fgs_cpus[wake_place(t, waker)];

	t->generation++;
	fgs_statistics.wakes++;
	if (waker) {
		fgs_kernel_line(waker, &c->queue_line, FGS_CHANGE);
		if (waker->now < c->queue_free_at)
			waker->now = c->queue_free_at;
		waker->now += fgs_cost(FGS_queue);
		c->queue_free_at = waker->now;
		waker->now += fgs_takes(waker, FGS_wake);
		now = waker->now;
	}
	start_on(c, t, now, waker, 0);
}

void fgs_timer_wakes(struct fgs_thread *t, fgs_ps now, fgs_ps under_way)
{
	uint32_t cpu = wake_place(t, NULL);

	t->generation++;
	fgs_statistics.wakes++;
	start_on(&fgs_cpus[cpu], t, now, NULL, cpu == t->cpu ? under_way : 0);
}

void fgs_wake_new(struct fgs_thread *t, fgs_ps now)
{
	t->cpu = new_place(t);
	t->generation++;
	t->lag = 0;
	start_on(&fgs_cpus[t->cpu], t, now, fgs_here, 0);
}

/* ---- moving threads that wait ----------------------------------------------------------------------------------- */

static struct fgs_thread *take_from(struct fgs_cpu *from, const struct fgs_cpu *to)
{
	for (uint32_t i = 0; i < from->queued; i++) {
		struct fgs_thread *t = from->queue[i];

		if (is_in(&t->allowed, to->id) && may_run(t)) {
			t->lag = average(from) - t->vruntime;
			fgs_statistics.migrations++;
			return dequeue(from, i);
		}
	}
	return NULL;
}

/* A CPU that has nothing to do takes a thread that waits elsewhere: from the longest queue of its complex, its socket,
 * the machine. */
static struct fgs_thread *steal(struct fgs_cpu *c)
{
	static const uint64_t all[FGS_WORDS] = {[0 ... FGS_WORDS - 1] = ~0ull};
	const uint64_t *sets[] = {fgs_places[c->id].in_complex, fgs_places[c->id].in_socket, all};

	for (size_t s = 0; s < 3; s++) {
		struct fgs_cpu *from = NULL;
		struct fgs_thread *t;

		for (uint32_t w = 0; w < FGS_WORDS; w++)
			for (uint64_t m = crowded.word[w] & sets[s][w]; m; m &= m - 1) {
				struct fgs_cpu *other = &fgs_cpus[w * 64 + (uint32_t)__builtin_ctzll(m)];

				if (other != c && (!from || other->queued > from->queued))
					from = other;
			}
		t = from ? take_from(from, c) : NULL;
		if (t) {
			c->now += fgs_cost(FGS_migrate);
			place(c, t);
			t->cpu = c->id;
			return t;
		}
	}
	return NULL;
}

/* At a tick: a thread that waits here goes to a CPU that idles, or, now and then, to one with two threads fewer. */
static void balance(struct fgs_cpu *c)
{
	uint32_t best = c->id;
	struct fgs_thread *t;

	for (uint32_t i = 0; c->queued && i < fgs_cpu_count; i++) {
		const struct fgs_cpu *other = &fgs_cpus[i];

		if (load_of(other) < load_of(&fgs_cpus[best]) && is_in(&c->queue[0]->allowed, i))
			best = i;
	}
	if (best == c->id || (!is_idle(&fgs_cpus[best]) && (load_of(&fgs_cpus[best]) + 2 > load_of(c) ||
							    c->next_tick / fgs_cost(FGS_tick) % BALANCE_TICKS)))
		return;
	t = take_from(c, &fgs_cpus[best]);
	if (!t)
		return;
	c->now += fgs_cost(FGS_migrate);
	start_on(&fgs_cpus[best], t, c->now, c, 0);
}

/* ---- switching -------------------------------------------------------------------------------------------------- */

/* `began`: from then on it is charged. */
static void run_from(struct fgs_cpu *c, fgs_ps began)
{
	struct fgs_thread *t = c->thread;

	t->state = FGS_RUNNING;
	c->began = began;
	c->resched = false;
	t->protected_until = t->deadline;
	fgs_cpu_at(c, c->now);
}

/* The thread that runs here leaves the CPU, or stays in the queue. It is charged until `until`. */
static void put_down(struct fgs_cpu *c, enum fgs_leaves why, fgs_ps until)
{
	struct fgs_thread *t = c->thread;

	account(c, until);
	if (!c->hosts) {
		fgs_trace_ran(c, t, t->queued_at, c->now);
		fgs_trace_held(t, c->now, fgs_watch_holds(t));
	}
	if (why == FGS_YIELDS && fgs_machine.key[FGS_forfeit] == 0) {
		t->deadline += virtual(t, t->slice);
	} else if (why == FGS_YIELDS) {
		if (t->vruntime <= average(c)) {
			t->vruntime = t->deadline;
			t->deadline += virtual(t, t->slice);
		}
	} else if (t->vruntime >= t->deadline) {
		t->deadline = t->vruntime + virtual(t, t->slice);
	}
	if (why == FGS_SLEEPS)
		t->lag = average(c) - t->vruntime;
	c->last_virtual = t->vruntime;
	c->thread = NULL;
	if (why != FGS_SLEEPS)
		enqueue(c, t, c->now);
}

static void begins(struct fgs_cpu *c, struct fgs_thread *t)
{
	t->cpu = c->id;
	if (c->hosts)
		return;
	fgs_trace_waited(c, t, t->queued_at, c->now);
	t->queued_at = c->now;
	if (&__rseq_size && __rseq_size)
		((struct rseq *)(t->thread_pointer + (uint64_t)__rseq_offset))->cpu_id = c->id;
}

void fgs_schedule(struct fgs_cpu *c, enum fgs_leaves why)
{
	struct fgs_thread *before = c->thread, *next;
	fgs_ps began = c->woken_at && c->woken_at < c->now ? c->woken_at : c->now;
	uint32_t best;

	c->woken_at = 0;
	if (before) {
		put_down(c, why, began);
	} else {
		fgs_ps until = c->now < c->idle_since ? c->idle_since : c->now;

		c->idle_sum += until - c->idle_since;
		c->next_tick = (c->now / fgs_cost(FGS_tick) + 1) * fgs_cost(FGS_tick);
	}
	best = best_of(c);
	next = best < c->queued ? dequeue(c, best) : steal(c);
	if (next != before) {
		fgs_statistics.switches += !c->hosts;
		if (before && why == FGS_SLEEPS)
			before->voluntary++;
		else if (before)
			before->involuntary++;
		if (!c->hosts)
			fgs_watch_switch(c, before, next, why != FGS_SLEEPS);
		c->now += fgs_takes(c, FGS_switch);
	}
	c->thread = next;
	put(&crowded, c, next && c->queued);
	put(&idle, c, !next && !c->queued);
	if (!next != !before)
		set_core_costs(c);
	if (!next) {
		c->idle_since = c->now;
		c->resched = false;
		fgs_cpu_at(c, FGS_NEVER);
		if (c->hosted)
			fgs_virtual_leaves(c, FGS_SLEEPS);
		return;
	}
	if (next != before)
		begins(c, next);
	run_from(c, began);
}

void fgs_tick(struct fgs_cpu *c)
{
	struct fgs_thread *t = c->thread;

	fgs_statistics.ticks++;
	c->now += fgs_cost(FGS_tick_work);
	fgs_account(c);
	while (c->next_tick <= c->now)
		c->next_tick += fgs_cost(FGS_tick);
	if (t->vruntime >= t->deadline && !is_real_time(t)) {
		t->deadline = t->vruntime + virtual(t, t->slice);
		t->protected_until = t->vruntime;
		c->resched = c->queued;
	}
	if (quota && used >= quota)
		fgs_throttled = true;
	if (!may_run(t))
		c->resched = true;
	if (c->queued)
		balance(c);
}

/* Of the first thread, from which the others have it. */
void fgs_restrict(struct fgs_thread *t)
{
	uint32_t cpus = (uint32_t)fgs_machine.key[FGS_cpuset];

	fgs_virtual_confine(t);
	for (uint32_t i = 0; cpus && i < FGS_CPUS; i++)
		if (i >= cpus)
			t->allowed.word[i / 64] &= ~(1ull << i % 64);
}

void fgs_sched_start(void)
{
	quota = (fgs_ps)(fgs_machine.key[FGS_quota] * (double)fgs_cost(FGS_period));
	if (quota)
		fgs_period_ends = fgs_cost(FGS_period);
	for (uint32_t i = 0; i < fgs_cpu_count; i++) {
		struct fgs_cpu *c = &fgs_cpus[i];

		c->id = i;
		c->word = i / 64;
		c->bit = 1ull << i % 64;
		c->queue = calloc(FGS_THREADS, sizeof(struct fgs_thread *));
		if (!c->queue)
			fgs_fail("not enough memory");
		put(&idle, c, true);
		set_costs(c);
	}
	fgs_virtual_start();
}
