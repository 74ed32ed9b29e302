/* SPDX-License-Identifier: MIT */
/* What the calls of <flexguard/advice.h> take and return; also what a waiter does without a monitor. */
#ifndef FLEXGUARD_ADVICE_TYPES_H
#define FLEXGUARD_ADVICE_TYPES_H

#include <stdint.h>

typedef uint64_t fg_handle; /* a thread; 0: none */

/* One wait, from its first look to its last. */
struct fg_wait {
	fg_handle whom;  /* for this thread, which is in a section; 0: not known */
	uint32_t number; /* for so many threads at most, if `whom` is 0: at a barrier, for all others; 0: not known */
	uint32_t looks;  /* how often this wait has looked so far */
};

enum fg_wait_action {
	FG_WAIT_SPIN = 0,  /* a spin hint, then look again */
	FG_WAIT_YIELD = 1, /* sched_yield: it lets run what is waited for, or what has more to do */
	FG_WAIT_SLEEP = 2, /* at most for sleep_ns, better until woken; the CPU is then free for what is waited for */
};

enum fg_wait_reason {
	FG_WHY_RUNS = 0,        /* the thread, or each thread in a section, is on its CPU as far as is known */
	FG_WHY_PREEMPTED = 1,   /* it, or one of them, is runnable and off its CPU */
	FG_WHY_ASLEEP = 2,      /* it sleeps in its section */
	FG_WHY_TOO_MANY = 3,    /* more threads are waited for than there are CPUs beside this one's */
	FG_WHY_LONG = 4,        /* this wait has been long, for no reason that is known */
	FG_WHY_UNMONITORED = 5, /* no monitor says anything: spin a little, yield a few times, sleep */
};

struct fg_advice {
	uint32_t action;   /* enum fg_wait_action */
	uint32_t reason;   /* enum fg_wait_reason */
	uint64_t sleep_ns; /* 0 unless the action is FG_WAIT_SLEEP */
};

/* Looks of a wait that nothing is known of: the first so many spin, the next yield, then it sleeps, for longer and
 * longer. */
#define FG_LOOKS_SPINNING 256u
#define FG_LOOKS_YIELDING 1024u
#define FG_SLEEP_SHORTEST_NS 50000u
#define FG_SLEEP_LONGEST_NS 1000000u

static inline struct fg_advice fg_advice_of(uint32_t action, uint32_t reason, uint64_t sleep_ns)
{
	struct fg_advice a;

	a.action = action;
	a.reason = reason;
	a.sleep_ns = sleep_ns;
	return a;
}

/* After `looks` looks that should have been enough. */
static inline struct fg_advice fg_advice_after(uint32_t looks, uint32_t reason)
{
	uint64_t ns = FG_SLEEP_SHORTEST_NS;
	uint32_t sleeps;

	if (looks < FG_LOOKS_YIELDING)
		return fg_advice_of(FG_WAIT_YIELD, reason, 0);
	for (sleeps = looks - FG_LOOKS_YIELDING; sleeps >= 4 && ns < FG_SLEEP_LONGEST_NS; sleeps -= 4)
		ns *= 2;
	return fg_advice_of(FG_WAIT_SLEEP, reason, ns < FG_SLEEP_LONGEST_NS ? ns : FG_SLEEP_LONGEST_NS);
}

static inline struct fg_advice fg_advice_unmonitored(uint32_t looks)
{
	if (looks < FG_LOOKS_SPINNING)
		return fg_advice_of(FG_WAIT_SPIN, FG_WHY_UNMONITORED, 0);
	return fg_advice_after(looks - FG_LOOKS_SPINNING, FG_WHY_UNMONITORED);
}

#endif
