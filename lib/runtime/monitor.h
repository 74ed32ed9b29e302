/* SPDX-License-Identifier: MIT */
/* The client side of the Preemption Monitor: one registration per image, one read-only page. */
#ifndef FGI_MONITOR_H
#define FGI_MONITOR_H

#include <stdbool.h>
#include <stdint.h>

#include "abi/flexguard_abi.h"
#include "runtime/atomic.h"
#include "runtime/cpu.h"

/* The counter of the domain that this process is in, or of the machine. Never NULL. */
extern const uint32_t *fgi_preempted_counter;

/* Where critical threads that are off their CPU are named: `off_cpu` of that domain. Never NULL. */
extern const uint32_t *fgi_off_cpu;

/* The notes beside these names, NULL where none are mapped. */
extern const uint32_t *fgi_off_cpu_notes;

/* What each CPU does, FG_CPUS of them, NULL where none are mapped. */
extern const struct fg_cpu *fgi_cpu_lines;

/* The monitor's page while it lives, otherwise one that always reads 0. Never NULL. */
extern const struct fg_shared *fgi_monitor_page;
extern const struct fg_shared fgi_no_monitor;

/* Is a critical section preempted, anywhere in the domain? The mode switch of every FlexGuard lock. */
static inline bool fgi_preempted_cs(void)
{
	return fg_load_relaxed(fg_load_relaxed(&fgi_preempted_counter)) != 0;
}

/* Does the monitor know that the thread that a lock word names `owner` sleeps while it holds a lock? */
static inline bool fgi_owner_sleeps(uint32_t owner)
{
	return owner && fg_load_relaxed(&fg_load_relaxed(&fgi_off_cpu)[fg_off_cpu_place(owner)]) == owner;
}

/* And is it preempted while it holds a lock, or is the next waiter? */
static inline bool fgi_named_preempted(uint32_t name)
{
	const uint32_t *off_cpu = fg_load_relaxed(&fgi_off_cpu);

	return name && fg_load_relaxed(&off_cpu[fg_off_cpu_place(name)]) == (name | FG_RUNNABLE);
}

/* NULL: nothing is known of that CPU. */
static inline const struct fg_cpu *fgi_cpu_line(uint32_t cpu)
{
	const struct fg_cpu *lines = fg_load_relaxed(&fgi_cpu_lines);

	return fg_likely(lines && cpu < FG_CPUS) ? &lines[cpu] : NULL;
}

/* The CPUs of this machine have lower numbers. 0: nothing is known. */
static inline uint32_t fgi_cpus_seen(void)
{
	uint32_t seen = fg_load_relaxed(&fg_load_relaxed(&fgi_monitor_page)->cpus_seen);

	return seen < FG_CPUS ? seen : FG_CPUS;
}

/* Of more CPUs, these many from this one on are looked at. */
#define FGI_IDLE_LOOKS 128u

/* Does a CPU idle that is in `among`, which has a bit for each of FG_CPUS? */
static inline bool fgi_idle_cpu(const uint64_t *among)
{
	const struct fg_cpu *lines = fg_load_relaxed(&fgi_cpu_lines);
	uint32_t words = (fgi_cpus_seen() + 63) / 64, looks = FGI_IDLE_LOOKS, here = fgi_cpu() % FG_CPUS;
	uint64_t after = ~(uint64_t)0 << here % 64;

	if (!lines || !words)
		return false;
	/* The word of this CPU comes first, with the CPUs from it on, and last, with those before it. */
	for (uint32_t i = 0; i <= words; i++) {
		uint32_t word = (here / 64 + i) % words;
		uint64_t some = fg_load_relaxed(&among[word]) & (i == 0 ? after : i == words ? ~after : ~(uint64_t)0);

		for (; some && looks; looks--, some &= some - 1)
			if (fg_load_relaxed(&lines[word * 64 + (uint32_t)__builtin_ctzll(some)].idle))
				return true;
	}
	return false;
}

/* About how many CPUs idle: each line is another CPU's, so on a machine with many CPUs no more than eight are read, and
 * the others taken to be like these. */
static inline uint32_t fgi_idle_cpus(void)
{
	const struct fg_cpu *lines = fg_load_relaxed(&fgi_cpu_lines);
	uint32_t seen = fgi_cpus_seen(), step = (seen + 7) / 8, idle = 0;

	if (!lines || !seen)
		return 0;
	for (uint32_t cpu = fgi_cpu() % step; cpu < seen; cpu += step)
		idle += fg_load_relaxed(&lines[cpu].idle) ? step : 0;
	return idle;
}

/* The latest switch of this CPU from one process to another: how often there was one, and how long the former had the
 * CPU (`stay`: FG_STAY_US, FG_STAY_WAITS). Where nothing is known the CPU is FGI_CPU_UNKNOWN, and the others are 0. */
struct fgi_process_switch {
	uint32_t cpu;
	uint16_t number, stay;
};

#define FGI_CPU_UNKNOWN UINT32_MAX

static inline struct fgi_process_switch fgi_process_switch(void)
{
	uint32_t cpu = fgi_cpu();
	const struct fg_cpu *line = fgi_cpu_line(cpu);

	if (fg_unlikely(!line))
		return (struct fgi_process_switch){FGI_CPU_UNKNOWN, 0, 0};
	return (struct fgi_process_switch){cpu, fg_load_relaxed(&line->process_switches), fg_load_relaxed(&line->stay)};
}

/* Another process is said to wait for this CPU: a yield would give it a time slice. */
static inline bool fgi_other_process_waits(void)
{
	return fgi_process_switch().stay & FG_STAY_WAITS;
}

/* Another process that had a CPU for longer is no passer-by, but competes for it; */
#define FGI_SLICE_US 600u
/* for so long no waiter of this process yields then. */
#define FGI_COMPETE_NS 100000000u

/* Has another process had this CPU for a slice since `before`? `unknown`: the answer where nothing is known of the CPU,
 * or this thread was moved meanwhile. */
static inline bool fgi_gave_slice_away(struct fgi_process_switch before, bool unknown)
{
	struct fgi_process_switch now = fgi_process_switch();

	if (now.cpu == FGI_CPU_UNKNOWN || now.cpu != before.cpu)
		return unknown;
	return now.number != before.number && (now.stay & FG_STAY_US) > FGI_SLICE_US;
}

/* Critical preemptions on the whole machine since the monitor was loaded, by kind. */
struct fgi_preemptions {
	uint64_t holders, next_waiters;
};

static inline struct fgi_preemptions fgi_preemptions(void)
{
	const struct fg_shared *page = fg_load_relaxed(&fgi_monitor_page);
	struct fgi_preemptions sum = {0, 0};

	for (uint32_t i = 0; i < FG_COUNT_LINES; i++) {
		sum.holders += fg_load_relaxed(&page->preemptions[i].holders);
		sum.next_waiters += fg_load_relaxed(&page->preemptions[i].next_waiters);
	}
	return sum;
}

/* Registers this image once per process: connects to the monitor, sends the windows and where thread blocks are, maps
 * the page. Without a monitor it returns quickly, and the locks are spin-then-park locks. Idempotent,
 * async-signal-safe, keeps errno, takes no lock, waits at most
 *   FGI_REGISTER_TIMEOUT_MS  for a monitor that hangs
 *   FGI_REQUIRED_TIMEOUT_MS  with FLEXGUARD_REQUIRE=1: a program that needs the monitor must not fail because the
 *                            machine is busy. A signal ends this wait within FGI_REGISTER_TIMEOUT_MS
 *   FGI_LOADING_TIMEOUT_MS   with FLEXGUARD_LOADING=1: `flexguard run` loads the monitor meanwhile, and a waiter takes
 *                            the answer (fgi_monitor_alive)
 * Signals are blocked meanwhile. */
void fgi_process_init(void);

/* Why this process is not registered, 0 if it is: what errno says of a connection that failed, the status of the
 * monitor's answer (struct fg_reply), or
 *   EINPROGRESS      a thread is about to register it
 *   ECANCELED        FLEXGUARD_SOCKET is empty
 *   ENAMETOOLONG     FLEXGUARD_SOCKET is too long
 *   EOPNOTSUPP       it was put into a sandbox (runtime/sandbox.h)
 *   EKEYREJECTED     what listens on the socket runs as neither root nor this process's user
 *   ETIMEDOUT        there was no answer in that time
 *   ECONNRESET       the monitor hung up without an answer
 *   EPROTO           the answer was no monitor's, or its page none
 *   EPROTONOSUPPORT  the monitor speaks another version of the ABI
 * Async-signal-safe. */
uint32_t fgi_monitor_refusal(void);

/* Looks at the monitor's heartbeat. Detaches from a monitor that has died, whose counter would keep its value for ever,
 * or attaches again to one that was only late. `now` is CLOCK_MONOTONIC. Returns whether the monitor lives. For waiters
 * that park or have spun for long; costs one load.
 *
 * If no monitor lives it also takes the next step of a registration, if one is due: a few system calls that never wait.
 * Async-signal-safe, keeps errno. There is one to make if the first came to nothing for a reason that may pass (until
 * there is another outcome), or if FLEXGUARD_RECONNECT is 1. More is off by default: a program that has put itself into
 * a sandbox since its first registration may be killed for a system call that it does not make itself.
 * FLEXGUARD_RECONNECT=0 leaves it at the first. */
bool fgi_monitor_alive(uint64_t now_ns);

void fgi_monitor_after_fork(void); /* in the child */

/* The program is about to forbid itself system calls. Waits for the answer to a registration that is under way, for
 * FGI_REGISTER_TIMEOUT_MS at most; afterwards none is made, unless FLEXGUARD_RECONNECT is 1. Keeps errno. */
void fgi_monitor_before_sandbox(void);

#define FGI_REQUIRE_ENV "FLEXGUARD_REQUIRE"
#define FGI_REGISTER_TIMEOUT_MS 500
#define FGI_REQUIRED_TIMEOUT_MS 10000
#define FGI_LOADING_ENV "FLEXGUARD_LOADING"
#define FGI_LOADING_TIMEOUT_MS 20
#define FGI_RECONNECT_ENV "FLEXGUARD_RECONNECT"
#define FGI_RECONNECT_NS 1000000000ull    /* between attempts; twice as long after each refusal */
#define FGI_RECONNECT_DOUBLINGS 6         /* and no longer */
#define FGI_REPLY_LOOK_NS 1000000ull      /* between looks for the answer to one */
#define FGI_LATE_ANSWER_NS 60000000000ull /* a first registration is given up after that */

/* For tests: stands in for a monitor; the second with FG_CPUS lines, the third with the tables of a domain, too. */
void fgi_monitor_attach(const struct fg_shared *page);
void fgi_monitor_attach_cpus(const struct fg_shared *page, const struct fg_cpu *cpus);
void fgi_monitor_attach_all(const struct fg_published *all, uint32_t domain);

#endif
