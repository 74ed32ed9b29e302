/* SPDX-License-Identifier: MIT */
/* The advice (docs/design/advice.md): sections, handles, and what a waiter is to do. */
#include "advice/advice.h"

#include <pthread.h>
#include <sched.h>

#include "flexguard/advice.h"
#include "runtime/clock.h"
#include "runtime/futex.h"
#include "runtime/hash.h"
#include "runtime/sandbox.h"
#include "runtime/spin.h"

/* So many looks of a wait for which all is well; longer than a time slice with a spin hint a look. Then it has been
 * long: a handle may be stale, or two threads share a place. */
#define LOOKS_LONG 100000u
/* The same of a wait that does not say for whom. A thread that lost its CPU while it waited, and has not run since it
 * was let go, is in no section: nothing says that it has no CPU, and it gets one that a waiter leaves. Fewer looks are
 * better with many CPUs beside busy processes, and worse with two (docs/results/advice.md). */
#define LOOKS_LONG_UNNAMED 1024u
#define LOOKS_PER_BEAT 256u
/* While a thread that is waited for has no CPU. Longer than this thread's timer is late, so that the CPU which it frees
 * may pull that thread; short beside a time slice. */
#define SLEEP_PREEMPTED_NS 100000u
#define SLEEP_ASLEEP_NS 200000u
#define YIELDS_PER_SLEEP FG_LOOKS_YIELDING
/* Threads of this process that sleep by this clock, for each CPU, before sleeps become longer; and the longest. */
#define SLEEPERS_PER_CPU 4u
#define SLEEP_CROWDED_NS 1000000000ull

void fg_section_begin(void)
{
	(void)fgi_self();
	fgi_held_raise();
}

void fg_section_end(void)
{
	fgi_held_lower();
}

__thread uint32_t fgi_handle_process;

/* The number of this process: greater than those of the processes that it was forked from. */
static uint32_t number_process(void)
{
	static uint32_t numbers;
	uint32_t *number = &fg_load_acquire(&fgi_of_process)->number;

	if (fg_load_relaxed(number) == 0)
		fg_cas_relaxed(number, 0, fg_fetch_add_relaxed(&numbers, 1) + 1);
	return fg_load_relaxed(number);
}

/* The thread may also have its handle from another copy of this library. After a fork by a system call libc's tid is
 * the parent's. */
static void drop_parents_handle(void)
{
	uint32_t life = fg_thread.life, forker = fg_thread.self;
	long tid = fgi_system_call(SYS_gettid, 0, 0, 0, 0, 0, 0);

	if (tid <= 0 || (uint32_t)tid == forker)
		return;
	fgi_pending_into_held(0);
	fg_thread.self = (uint32_t)tid;
	fgi_foreign_renamed(forker);
	fg_cas_relaxed(&fg_thread.life, life, 0); /* a signal handler may have drawn another one */
}

/* Threads of one tid that live one after the other get the same number once in 4 million times; then the advice about
 * one may be that about the other. A signal handler may have given the thread its handle meanwhile, or may have forked.
 */
uint64_t fgi_new_handle(void)
{
	static uint32_t given;
	uint32_t number = number_process(), self, mixed;
	uint64_t seed = fgi_now_ns(CLOCK_MONOTONIC) + ((uint64_t)fg_fetch_add_relaxed(&given, 1) << 40);

	if (fg_thread.life && fgi_handle_process != number)
		drop_parents_handle();
	fgi_handle_process = number;
	self = fgi_self();
	mixed = (uint32_t)fgi_hash(seed ^ (uint64_t)self << 32, 22) & FG_NOTE_LIFE;
	fg_cas_relaxed(&fg_thread.life, 0, mixed ? mixed : 1);
	return fgi_own_handle();
}

fg_handle fg_thread_handle(void)
{
	return fgi_own_handle();
}

/* CPUs that this process could use when the library was loaded; 0: not known. */
static uint32_t cpus;

__attribute__((constructor)) static void count_cpus(void)
{
	static cpu_set_t set; /* too large for a stack */

	if (fgi_optional_call(SYS_sched_getaffinity, 0, sizeof(set), (long)&set) > 0)
		cpus = (uint32_t)CPU_COUNT(&set);
}

static struct fg_advice about_whom(const struct fg_wait *w, enum fgi_whereabouts where)
{
	switch (where) {
	case FGI_SLEEPS:
		return fg_advice_of(FG_WAIT_SLEEP, FG_WHY_ASLEEP, SLEEP_ASLEEP_NS);
	case FGI_PREEMPTED_ELSEWHERE:
		return fg_advice_of(FG_WAIT_SLEEP, FG_WHY_PREEMPTED, SLEEP_PREEMPTED_NS);
	case FGI_PREEMPTED_HERE:
	case FGI_PREEMPTED_SOMEWHERE:
		return fg_advice_of(FG_WAIT_YIELD, FG_WHY_PREEMPTED, 0);
	case FGI_ON_CPU:
	default:
		if (w->looks < LOOKS_LONG)
			return fg_advice_of(FG_WAIT_SPIN, FG_WHY_RUNS, 0);
		return fg_advice_after(w->looks - LOOKS_LONG, FG_WHY_LONG);
	}
}

/* More than there are CPUs beside this one: some cannot run while this one spins. */
static bool too_many(const struct fg_wait *w)
{
	return w->number && cpus && w->number >= cpus;
}

/* The thread that has no CPU may wait for this one or for another: a yield lets it run here. Now and then it sleeps: an
 * idle CPU may pull what waits elsewhere. */
static struct fg_advice offer_cpu(const struct fg_wait *w, enum fg_wait_reason why)
{
	if (w->looks % YIELDS_PER_SLEEP != YIELDS_PER_SLEEP - 1)
		return fg_advice_of(FG_WAIT_YIELD, why, 0);
	return fg_advice_of(FG_WAIT_SLEEP, why, FG_SLEEP_SHORTEST_NS);
}

/* What is known of threads that are not named. */
static struct fg_advice about_others(const struct fg_wait *w)
{
	if (too_many(w))
		return offer_cpu(w, FG_WHY_TOO_MANY);
	if (fgi_preempted_cs())
		return fgi_preempted_elsewhere() ? fg_advice_of(FG_WAIT_SLEEP, FG_WHY_PREEMPTED, SLEEP_PREEMPTED_NS)
						 : offer_cpu(w, FG_WHY_PREEMPTED);
	if (w->looks < LOOKS_LONG_UNNAMED)
		return fg_advice_of(FG_WAIT_SPIN, FG_WHY_RUNS, 0);
	return fg_advice_after(w->looks - LOOKS_LONG_UNNAMED, FG_WHY_LONG);
}

/* Until then other processes are taken to compete for the CPUs: a yield of this process has given a slice away. */
static uint64_t compete_until_ns;

static bool yield_costs_a_slice(void)
{
	uint64_t until = fg_load_relaxed(&compete_until_ns);

	return fgi_other_process_waits() || (until && fgi_now_ns(CLOCK_MONOTONIC) < until);
}

static struct fg_advice advice_by_table(const struct fg_wait *w, uint32_t name)
{
	if (w->looks % LOOKS_PER_BEAT == LOOKS_PER_BEAT - 1)
		(void)fgi_monitor_alive(fgi_now_ns(CLOCK_MONOTONIC));
	if (fg_load_relaxed(&fgi_monitor_page) == &fgi_no_monitor) {
		if (!w->whom && too_many(w))
			return offer_cpu(w, FG_WHY_TOO_MANY);
		return fg_advice_unmonitored(w->looks);
	}
	return w->whom ? about_whom(w, fgi_whereabouts_of(w->whom, name)) : about_others(w);
}

/* A yield is for threads of this process, or for the one that is waited for. Another process would keep the CPU. */
__attribute__((noinline)) static struct fg_advice advice_slow(const struct fg_wait *w, uint32_t name)
{
	struct fg_advice a = advice_by_table(w, name);

	if (a.action == FG_WAIT_YIELD && !(w->whom && a.reason == FG_WHY_PREEMPTED) && yield_costs_a_slice())
		return fg_advice_of(FG_WAIT_SLEEP, a.reason, FG_SLEEP_SHORTEST_NS);
	return a;
}

struct fg_advice fgi_advice(const struct fg_wait *w)
{
	uint32_t name = 0;
	bool calm;

	if (w->whom) {
		name = fgi_named_there(w->whom);
		calm = (name & ~FG_RUNNABLE) != fgi_handle_tid(w->whom);
	} else {
		calm = !fgi_preempted_cs() && w->number < cpus;
	}
	if (fg_likely(calm && w->looks < FG_LOOKS_SPINNING && fg_load_relaxed(&fgi_monitor_page) != &fgi_no_monitor))
		return fg_advice_of(FG_WAIT_SPIN, FG_WHY_RUNS, 0);
	return advice_slow(w, name);
}

struct fg_advice fg_wait_advice(const struct fg_wait *w)
{
	return fgi_advice(w);
}

/* Learns from it: a yield that finds no thread takes less than a microsecond; to another process it takes a slice. The
 * time alone does not say it: a yield to a thread of this process takes as long. */
static void yield(void)
{
	struct fgi_process_switch before = fgi_process_switch();
	uint64_t began = fgi_now_ns(CLOCK_MONOTONIC), ended;

	fgi_spin_yield();
	ended = fgi_now_ns(CLOCK_MONOTONIC);
	if (ended - began > FGI_SLICE_US * 1000 && fgi_gave_slice_away(before, true))
		fg_store_relaxed(&compete_until_ns, ended + FGI_COMPETE_NS);
}

/* Threads of this process that sleep, by the period in which their sleep began: the period's number << 32, and how
 * many. A period is longer than the longest sleep, so the last two have all of them. A thread that ended in its sleep,
 * or left it by longjmp, is forgotten with its period. */
static uint64_t sleepers[2];

#define PERIOD_SHIFT 30
_Static_assert(SLEEP_CROWDED_NS < 1ull << PERIOD_SHIFT, "a sleep ends in the period after the one it began in");

static uint32_t sleepers_since(uint32_t period)
{
	uint64_t found = fg_load_relaxed(&sleepers[period % 2]);

	return found >> 32 == period ? (uint32_t)found : 0;
}

static void enter_sleep(uint32_t period)
{
	uint64_t *word = &sleepers[period % 2], found = fg_load_relaxed(word), seen, wanted;

	for (;; found = seen) {
		wanted = found >> 32 == period ? found + 1 : ((uint64_t)period << 32) + 1;
		seen = fg_cas_relaxed(word, found, wanted);
		if (seen == found)
			return;
	}
}

static void leave_sleep(uint32_t period)
{
	uint64_t *word = &sleepers[period % 2], found = fg_load_relaxed(word), seen;

	for (; found >> 32 == period && (uint32_t)found; found = seen) {
		seen = fg_cas_relaxed(word, found, found - 1);
		if (seen == found)
			return;
	}
}

/* Sleeps as advised; for longer where many threads of this process do the same, so that together they look no more
 * often than a few would: sleepers that nobody wakes take the CPUs from the thread that they wait for. */
static void sleep_among_others(struct fg_advice *a)
{
	uint32_t period = (uint32_t)(fgi_now_ns(CLOCK_MONOTONIC) >> PERIOD_SHIFT);
	uint32_t others = sleepers_since(period) + sleepers_since(period - 1);

	enter_sleep(period);
	a->sleep_ns *= 1 + others / (SLEEPERS_PER_CPU * (cpus ? cpus : 1));
	if (a->sleep_ns > SLEEP_CROWDED_NS)
		a->sleep_ns = SLEEP_CROWDED_NS;
	fgi_nap((uint32_t)a->sleep_ns);
	leave_sleep(period);
}

/* The other threads stayed in the parent. */
static void forget_sleepers(void)
{
	fg_store_relaxed(&sleepers[0], 0);
	fg_store_relaxed(&sleepers[1], 0);
}

__attribute__((constructor)) static void sleep_alone_after_fork(void)
{
	(void)pthread_atfork(NULL, NULL, forget_sleepers);
}

struct fg_advice fg_wait_once(struct fg_wait *w)
{
	struct fg_advice a = fgi_advice(w);

	if (a.action == FG_WAIT_SPIN)
		fgi_spin_once();
	else if (a.action == FG_WAIT_YIELD)
		yield();
	else
		sleep_among_others(&a);
	w->looks++;
	return a;
}
