/* SPDX-License-Identifier: MIT */
/* What the parts of a worker share. C and C++: an adapter around a C++ lock includes it too. */
#ifndef FGB_BENCH_H
#define FGB_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/histogram.h"
#include "bench/status.h"
#include "src/arch/arch.h"
#include "src/atomic.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Two cache lines: x86 prefetches lines in pairs, so one line is not yet alone. */
#define FGB_ALONE 128

struct fgb_line { /* one cache line of the data that the lock protects */
	uint64_t value;
} __attribute__((aligned(64)));

enum fgb_phase { FGB_WARMUP, FGB_MEASURE, FGB_STOP };

struct fgb_run { /* one round; the main thread writes it, `phase` alone changes while the workers run */
	uint32_t phase;
	uint32_t sample; /* every how many operations one is timed */
	uint64_t cycles_between;
	uint64_t section_cycles;
	uint32_t lines;
	struct fgb_line *data;
} __attribute__((aligned(FGB_ALONE)));

struct fgb_counts { /* one phase of one worker */
	uint64_t ops;
	uint64_t sampled;    /* operations that were timed */
	uint64_t longest_cs; /* cycles; over every operation */
	uint64_t spins;
	uint64_t parks;
	struct fgb_histogram cs;   /* cycles from asking for the lock to having released it; sampled operations */
	struct fgb_histogram wait; /* cycles from asking for the lock to having it; the same operations */
} __attribute__((aligned(FGB_ALONE)));

/* The measured loops around one lock, as bench/loop.h compiles them. */
struct fgb_loops {
	void (*shm)(const struct fgb_run *run, uint32_t phase,
		    struct fgb_counts *counts); /* until run->phase changes */
	void (*pairs)(uint64_t n);              /* n times lock, unlock */
};

struct fgb_lock {
	const char *name;
	const struct fgb_loops *loops; /* an alias shares them with the lock that it stands for */
};

extern const struct fgb_loops fgb_loops; /* of the lock that this worker carries */

/* The names of the lock that this worker carries; one without a name ends them. CMake generates the table. */
extern const struct fgb_lock fgb_locks[];
const struct fgb_lock *fgb_find_lock(const char *name);

/* The subcommands. Each returns the exit status: 0, FGB_FAILED, ... */
int fgb_shm_main(int argc, char **argv);
int fgb_uncontended_main(int argc, char **argv);

#ifdef __cplusplus
}
#endif
#endif
