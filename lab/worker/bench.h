/* SPDX-License-Identifier: MIT */
/* What the parts of a worker share. C and C++: an adapter around a C++ lock includes it too.
 *
 *   lock       locks/published/NAME.inc.h or an adapter in peers/: what is measured
 *   workload   workloads/NAME.h: what the threads do with locks; compiled once per lock, so that it inlines.
 *              workloads/pthread/NAME.h: how they wait for one another by pthread calls
 *   round      worker/round.c: threads, phases, hogs, samplers around any workload and any lock */
#ifndef FGB_BENCH_H
#define FGB_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/arch/arch.h"
#include "runtime/atomic.h"
#include "worker/histogram.h"
#include "worker/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Two cache lines: x86 prefetches lines in pairs, so one line is not yet alone. */
#define FGB_ALONE 128

struct fgb_line { /* one cache line of the data that a lock protects */
	uint64_t value;
} __attribute__((aligned(64)));

enum fgb_phase { FGB_WARMUP, FGB_MEASURE, FGB_STOP, FGB_PAUSE };

struct fgb_run { /* one round; the main thread writes it, `phase` alone changes while the threads run */
	uint32_t phase;
	uint32_t sample; /* every how many operations one is timed */
	uint64_t threads;
	uint64_t cycles_between;
	uint32_t hold_sleep_ns;    /* a holder sleeps this long in its section; 0: never */
	uint32_t hold_sleep_every; /* in every how many sections */
} __attribute__((aligned(FGB_ALONE)));

struct fgb_counts {          /* one phase of one thread; it alone writes it */
	uint64_t ops;        /* the main thread reads it while the phase lasts */
	uint64_t sampled;    /* operations that were timed */
	uint64_t longest_cs; /* cycles; over every operation */
	uint64_t spins;
	uint64_t parks;
	struct fgb_histogram cs;   /* cycles from asking for the lock to having released it; sampled operations */
	struct fgb_histogram wait; /* cycles from asking for the lock to having it; the same operations */
	struct fgb_histogram hold; /* cycles from having it to having released it; the same operations */
} __attribute__((aligned(FGB_ALONE)));

struct fgb_thread {                  /* what a workload knows of the thread that runs it */
	struct fgb_counts counts[2]; /* by phase: FGB_WARMUP, FGB_MEASURE */
	uint64_t random;             /* state of worker/random.h */
	uint64_t index;              /* 0 .. threads - 1 */
	uint64_t scratch[4];         /* the workload's own; zero at the start */
};

struct fgb_option;

/* One workload around one lock. A file of workloads/ is all there is to adding one: CMake finds it. A thread
 * holds or awaits two locks at most: adapters of peers/ have two queue nodes a thread. */
struct fgb_workload {
	const char *name;
	const char *brief;
	uint64_t cycles_between;          /* unless --cycles-between says otherwise */
	uint64_t sample;                  /* unless --sample says otherwise */
	bool own_loop;                    /* without fgb_operate: --cycles-between and --hold-sleep-us mean nothing */
	const struct fgb_option *options; /* its own, beside those of every round; NULL-named end */
	int (*prepare)(const struct fgb_run *run); /* the options are read: allocates. 0, or a status after a message */
	/* Until the phase changes. A ramp calls it again in the same phase. */
	void (*loop)(const struct fgb_run *run, uint32_t phase, struct fgb_thread *self);
	bool (*adds_up)(uint64_t ops); /* after `ops` operations in all: is what the locks protect still whole? */
	uint64_t (*locks)(void);       /* how many there are */
	void (*describe)(void);        /* prints its settings as members of a JSON object */
	void (*stop)(void); /* the last phase is over: wakes threads that wait for one another; may be NULL */
};

/* What worker/loop.h compiles around one lock. */
struct fgb_carried {
	const struct fgb_workload *const *workloads; /* NULL ends them */
	/* workloads/pthread/: by pthread calls; only the worker of posix has any */
	const struct fgb_workload *const *pthread_workloads;
	void (*pairs)(uint64_t n);    /* n times lock, unlock */
	const char *(*refusal)(void); /* why this machine cannot run the lock, or NULL if it can */
	size_t lock_bytes;
};

struct fgb_lock {
	const char *name;
	const struct fgb_carried *carried;
	bool own; /* one of lock/LOCKS or locks/LOCKS: its memory comes from our pools */
};

/* The lock that this worker carries; CMake generates them. */
extern const struct fgb_carried fgb_carried;
extern const struct fgb_lock fgb_worker_lock;

/* Where the worker runs under the simulator (simulator/): prints that as a member of the JSON object. */
void fgb_describe_simulation(void) __attribute__((weak));

/* Zeroed memory, touched (so that no page is missing later), aligned to FGB_ALONE. NULL after a message. */
void *fgb_allocate(uint64_t count, uint64_t size);

/* How many cycles of the counter make a microsecond, measured once, before the threads start. */
double fgb_cycles_per_us(void);

/* Whether the lock can run here; says why on stderr if it cannot (the status is then FGB_UNAVAILABLE).
 * FLEXGUARD_FORCE=1 overrules it, as it does in the command. */
bool fgb_available(const struct fgb_lock *lock);

/* The subcommands. argv[0] is the subcommand's name. Each returns the exit status: 0, FGB_FAILED, ... */
#define FGB_CATALOGUE_VERSION 1
/* Prints, as a JSON object, the options of every round and of each workload: what the command and scenes may set. */
void fgb_print_catalogue(const struct fgb_carried *carried);
int fgb_round_main(const struct fgb_workload *workload, int argc, char **argv);
int fgb_uncontended_main(int argc, char **argv);

/* The worker's main program: lab/peers/rust starts it from a Rust main. */
int fgb_main(int argc, char **argv);

#ifdef __cplusplus
}
#endif
#endif
