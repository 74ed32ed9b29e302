/* SPDX-License-Identifier: MIT */
/* A simulator that runs the shipped lock sources, unchanged, on N virtual CPUs in virtual time.
 *
 * What runs. The worker (workloads, lock, runtime) is compiled a second time with -fsanitize=thread and linked without
 * that sanitizer's runtime: each access to memory calls the simulator (access.c). Inline assembly is replaced by the
 * architecture `include/runtime/arch/arch.h`, and what libc would ask the kernel is taken at link time (calls.c). A
 * simulated thread is a fiber of one host thread, with a stack and a thread-local block at fixed addresses (fiber.c).
 *
 * Time. Each CPU has a clock in picoseconds, which accesses, hints and calls advance. A fiber runs until its clock
 * passes that of the CPU that is next (`fgs_limit`); then the engine goes on with that one (engine.c). So what one CPU
 * does to a line is ordered by virtual time against what others do to it:
 *
 *   - What needs no other CPU (to compute, to pause, to read the clock) may run ahead, at most FGS_LEAD.
 *   - A CPU that only pauses and looks at lines of which it has a copy may lag behind, at most FGS_LAG: it sees nothing
 *     new. Before another CPU writes such a line at time t, it is run on to t (fgs_catch_up).
 *   - All else is in order, to within FGS_TOLERANCE.
 *
 * The kernel. sched.c is the scheduler (EEVDF, wake-up placement, balancing, idle states), futex.c the futex, watch.c
 * runs the monitor at each switch; their accesses to memory are charged to the CPU, too.
 *
 * Same seed, same bits: all simulated memory is at fixed addresses (memory.c), the program is linked to one, and
 * nothing of the host (addresses, time, ids) is visible inside. */
#ifndef FGS_ENGINE_H
#define FGS_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "simulator/line.h"
#include "simulator/machine.h"

#define FGS_THREADS 4096u
#define FGS_LEAD (2 * FGS_US)
#define FGS_LAG (500 * FGS_NS)
#define FGS_TOLERANCE (20 * FGS_NS)
#define FGS_EPOCH_NS 1000000000000ull /* the virtual clock's start */

struct fgs_futex_bucket;
struct fgs_task;

enum fgs_leaves { FGS_GOES_ON, FGS_PREEMPTED, FGS_YIELDS, FGS_SLEEPS };
enum fgs_state { FGS_RUNNABLE, FGS_RUNNING, FGS_SLEEPING, FGS_ENDED };

struct fgs_set {
	uint64_t word[FGS_WORDS];
};

struct fgs_timer {
	struct fgs_cpu *cpu;   /* whose timer it is; null: it is not set */
	fgs_ps earliest, last; /* with its slack */
	uint32_t generation;
	struct fgs_thread *next; /* the owner of the CPU's next one, in the order of `last` */
};

struct fgs_thread {
	uint32_t id;
	uint32_t process; /* 0: the worker's; each hog is a process of its own */
	enum fgs_state state;
	void *stack_pointer;
	uint64_t thread_pointer;
	void *(*body)(void *);
	void *argument, *result;
	struct fgs_task *task; /* watch.c */

	/* sched.c; virtual times are in ps, of a thread of nice 0 */
	uint32_t cpu;
	int nice, policy, priority;
	uint32_t weight;
	int64_t vruntime, deadline, lag, protected_until;
	uint64_t slice;
	struct fgs_set allowed;
	fgs_ps ran, queued_at;
	uint64_t voluntary, involuntary;
	bool stays; /* it is not preempted: a guest's kernel has said so */

	struct fgs_cpu *virtual_cpu; /* of a thread of a host: virtual.c */

	/* of a sleep */
	uint32_t generation; /* a timer of an older one wakes nobody */
	bool timed_out;
	struct fgs_timer timer;
	struct fgs_futex_bucket *bucket;
	struct fgs_thread *next; /* in the futex's bucket */
	const uint32_t *word;
	uint32_t bits;
	uint64_t slack;

	struct fgs_thread *joiner;
	bool detached;
	void *specific[32];
};

struct fgs_cpu {
	uint32_t id;
	fgs_ps now;
	uint64_t bit; /* in word[word] of a set */
	uint32_t word;
	bool lags;                 /* it may be behind the others */
	bool paused;               /* since its thread last did what others may see */
	bool starting;             /* it leaves an idle state, for what is in its queue */
	struct fgs_thread *thread; /* null: it idles */

	/* waits for a line */
	struct fgs_line *line;
	uint16_t next_waiter; /* number + 1 */
	bool granted;         /* it has waited, and takes the line before anything else: the others wait for that */
	uint16_t bypassed;
	fgs_ps asked;

	/* stores under way */
	fgs_ps stored_at;                /* the last of them is done */
	fgs_ps loaded_at;                /* so is the last load */
	fgs_ps changes_from, changed_at; /* the last locked access that waited for its line */
	fgs_ps store[64];
	uint32_t store_place;

	/* costs, as the other threads of its core let it run */
	fgs_ps hit, atomic, pause, counter, ordered;
	double slower;

	/* sched.c */
	struct fgs_thread **queue;
	uint32_t queued;
	int64_t last_virtual;
	fgs_ps began, next_tick, idle_since, idle_sum, queue_free_at, debt;
	fgs_ps woken_at; /* a wake-up makes it switch: Linux charges the time from then on to the next thread */
	bool resched;
	struct fgs_line queue_line;

	struct fgs_thread *timers; /* timer.c: who has the first */

	/* virtual.c */
	bool hosts;                /* a CPU of the host */
	struct fgs_thread *buddy;  /* that comes first there, at the next switch */
	struct fgs_thread *hosted; /* of a virtual CPU: the host's thread */
	bool off, leaves;          /* it is on no CPU of the host; it exits before its next instruction */
	bool spun, passed; /* it is off since it only paused; it was passed over when another was to be helped */
	fgs_ps paused_since;
	uint64_t entries, halted;
	const uint32_t *halts_at;
	uint32_t halt_bits;
};

extern struct fgs_machine fgs_machine;
extern struct fgs_cpu fgs_cpus[FGS_CPUS];
extern uint32_t fgs_cpu_count;
extern struct fgs_thread *fgs_threads[FGS_THREADS];
extern uint32_t fgs_thread_count;

/* The CPU whose thread runs; null: the host's own code does. */
extern struct fgs_cpu *fgs_here;
extern bool fgs_in_kernel; /* and it is in a call, or switches: its accesses are not ordered one by one */
extern fgs_ps fgs_exact;   /* until then no other CPU does anything */
extern fgs_ps fgs_limit;   /* until then its thread may use its own cache: fgs_exact and the tolerance */
extern fgs_ps fgs_stop;    /* until then it may do what no other CPU sees or changes */

/* A schedule is checked (check/schedule.c): each access is a step, and time has no meaning. */
extern const bool fgs_checks;
extern uint32_t fgs_tid_stride; /* from the id of a thread to the next one's: what hashes ids may collide */

extern struct fgs_statistics {
	uint64_t events, switches, wakes, migrations, ticks, transfers, caught_up, pause_exits;
} fgs_statistics;

static inline fgs_ps fgs_cost(enum fgs_key key)
{
	return (fgs_ps)(fgs_machine.key[key] * (double)FGS_NS);
}

static inline struct fgs_thread *fgs_self(void)
{
	return fgs_here->thread;
}

uint64_t fgs_random(void);
/* From 1 - part to 1 + part of the time. */
fgs_ps fgs_about(fgs_ps time, double part);
double fgs_plus_minus(void); /* from -1 to 1 */
static inline bool fgs_chance(double part)
{
	return part >= 1 || (double)(fgs_random() >> 11) * 0x1p-53 < part;
}

/* What the kernel needs for that on this CPU; 0.7 to 1.3 times as long. */
static inline fgs_ps fgs_takes(const struct fgs_cpu *c, enum fgs_key key)
{
	return fgs_about((fgs_ps)((double)fgs_cost(key) * c->slower), 0.3);
}

/* ---- engine.c --------------------------------------------------------------------------------------------------- */

void fgs_engine_start(uint64_t seed);

/* Until the thread has ended. */
void fgs_engine_run(const struct fgs_thread *last);

/* When the CPU is to go on; FGS_NEVER: not by itself. */
void fgs_cpu_at(struct fgs_cpu *c, fgs_ps when);

/* The CPU's timer interrupts it then. */
void fgs_interrupt_at(const struct fgs_cpu *c, fgs_ps when);

/* Called by a simulated thread. `fgs_turn`: lets the CPUs that are behind go first. */
void fgs_turn(void);
/* The same, until no CPU is behind: what follows is in order. */
void fgs_settle(void);
void fgs_sleep(void); /* until fgs_wake */
void fgs_yield(void);
void fgs_move(void);                /* to a CPU that it may use */
void fgs_exit(enum fgs_leaves why); /* of its virtual CPU, which stays its own */
void fgs_pause_exit(void);
void fgs_wait_for_line(struct fgs_line *l);
void fgs_catch_up(struct fgs_line *l);
void fgs_thread_ends(void) __attribute__((noreturn));

/* Is a CPU behind that has a copy of the line, besides this one? */
bool fgs_has_laggards(const struct fgs_line *l, const struct fgs_cpu *c);
/* The CPUs that lag have no copy any more: they are about to ask for the line. */
void fgs_lose_copies(const struct fgs_line *l);

/* Ends the program with a message. */
void fgs_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* ---- fiber.c ---------------------------------------------------------------------------------------------------- */

void fgs_fibers_start(void);
/* A new thread, asleep; null: there are FGS_THREADS. */
struct fgs_thread *fgs_thread_new(void *(*body)(void *), void *argument, uint32_t process);
void fgs_switch_to(struct fgs_thread *t);   /* from the engine */
void fgs_switch_back(struct fgs_thread *t); /* to the engine */

/* ---- access.c --------------------------------------------------------------------------------------------------- */

/* An access of the kernel, in order of the calls. */
void fgs_kernel_access(struct fgs_cpu *c, const void *address, enum fgs_access access);
void fgs_kernel_line(struct fgs_cpu *c, struct fgs_line *l, enum fgs_access access);
void fgs_arbitrate(struct fgs_line *l, struct fgs_cpu **winner);
extern fgs_ps fgs_pause_limit; /* a CPU that has only paused for so long exits; 0: never */
/* Computes for so long. */
void fgs_compute(fgs_ps time);

/* ---- sched.c ---------------------------------------------------------------------------------------------------- */

void fgs_sched_start(void);
void fgs_set_nice(struct fgs_thread *t, int nice);
void fgs_wake(struct fgs_thread *t, fgs_ps now, struct fgs_cpu *waker);
/* Its timer wakes it: an interrupt, which has been on its way for so long, of the CPU that it ran on. */
void fgs_timer_wakes(struct fgs_thread *t, fgs_ps now, fgs_ps under_way);
void fgs_wake_new(struct fgs_thread *t, fgs_ps now);
void fgs_schedule(struct fgs_cpu *c, enum fgs_leaves why);
void fgs_tick(struct fgs_cpu *c);
void fgs_account(struct fgs_cpu *c);
void fgs_restrict(struct fgs_thread *t); /* to the machine's cpuset */
extern fgs_ps fgs_period_ends;           /* of the CPU quota; FGS_NEVER: there is none */
extern bool fgs_throttled;               /* the quota is used: the program waits for the next period */
void fgs_new_period(void);

/* ---- timer.c ---------------------------------------------------------------------------------------------------- */

/* The calling thread wakes up between then and its slack later, unless another wakes it. */
void fgs_timer_set(fgs_ps earliest);
/* It has woken up otherwise. */
void fgs_timer_cancel(void);
void fgs_timer_interrupts(struct fgs_cpu *c, fgs_ps now);

/* ---- main.c ----- */

/* A measurement begins, or ends: the result is about what was between the last two. */
void fgs_mark(void);

/* ---- memory.c --------------------------------------------------------------------------------------------------- */

#define FGS_ARENA 0x100000000000ull
#define FGS_STACK 0x40000ull /* a thread's: the host's part on top, the thread's below */
#define FGS_STACKS (FGS_THREADS * FGS_STACK)
#define FGS_HEAP (FGS_ARENA + FGS_STACKS)
#define FGS_HEAP_BYTES 0x200000000ull
#define FGS_ARENA_BYTES (FGS_STACKS + FGS_HEAP_BYTES)

extern struct fgs_line *fgs_arena_lines, *fgs_image_lines;
extern char __executable_start[], _end[];

void fgs_memory_start(void);
void *fgs_allocate(size_t bytes, size_t alignment);
void fgs_free(void *memory);
size_t fgs_allocated(const void *memory);
uintptr_t fgs_heap_end(void);
static inline bool fgs_is_simulated(const void *memory)
{
	return (uintptr_t)memory - FGS_ARENA < FGS_ARENA_BYTES;
}

/* A CPU comes to a line, or to another of its page: that page is in the memory of the first such CPU's socket. */
void fgs_find_home(struct fgs_line *l, uint32_t cpu);

/* Null: not simulated memory. */
static inline struct fgs_line *fgs_line_of(const void *address)
{
	uintptr_t a = (uintptr_t)address;

	if (__builtin_expect(a - FGS_ARENA < FGS_ARENA_BYTES, 1))
		return &fgs_arena_lines[(a - FGS_ARENA) / 64];
	if (a - (uintptr_t)__executable_start < (uintptr_t)_end - (uintptr_t)__executable_start)
		return &fgs_image_lines[a / 64 - (uintptr_t)__executable_start / 64];
	return NULL;
}

/* ---- watch.c ---------------------------------------------------------------------------------------------------- */

void fgs_watch_start(bool monitored);
void fgs_watch_thread(struct fgs_thread *t);
/* Does it hold a lock, by what it publishes? */
bool fgs_watch_holds(const struct fgs_thread *t);
/* The CPU goes from one thread to another; null: it idles. */
void fgs_watch_switch(struct fgs_cpu *c, struct fgs_thread *before, struct fgs_thread *after, bool runnable);

/* ---- trace.c ---------------------------------------------------------------------------------------------------- */

int fgs_trace_start(const char *file);
void fgs_trace_ran(const struct fgs_cpu *c, const struct fgs_thread *t, fgs_ps from, fgs_ps to);
void fgs_trace_waited(const struct fgs_cpu *c, const struct fgs_thread *t, fgs_ps from, fgs_ps to);
void fgs_trace_held(const struct fgs_thread *t, fgs_ps at, bool holds);
void fgs_trace_end(void);
/* What is in the 64 bytes at `line`. */
void fgs_symbol(uintptr_t line, char *name, size_t size);
void fgs_lines_print(uint32_t count, uint64_t ops);

#endif
