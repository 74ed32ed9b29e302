/* SPDX-License-Identifier: MIT */
/* Cache lines of the simulated machine: which CPUs have a copy, which has the line alone, and until when it is on its
 * way. What a line holds is in the host's memory; the model is about time alone.
 *
 *   copies      the CPUs that can read without a transfer
 *   owner       the one that can write without one: number + 1; 0: none; it is in `copies`, alone
 *   free_at     a transfer is under way until then: the next begins no earlier */
#ifndef FGS_LINE_H
#define FGS_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "simulator/machine.h"

typedef uint64_t fgs_ps; /* virtual time in picoseconds */
#define FGS_NS 1000ull
#define FGS_US (1000 * FGS_NS)
#define FGS_MS (1000 * FGS_US)
#define FGS_NEVER UINT64_MAX

#define FGS_WORDS (FGS_CPUS / 64)

struct fgs_line {
	fgs_ps free_at;
	uint16_t owner;
	bool dirty;           /* the owner has written it */
	uint16_t first, last; /* the CPUs that wait for it, in the order of their arrival: number + 1; 0: none */
	uint32_t transfers, writes;
	fgs_ps lost;   /* by all CPUs, waiting for it */
	uint16_t home; /* the socket whose memory it is in: number + 1; 0: not known */
	uint64_t copies[FGS_WORDS];
} __attribute__((aligned(64)));

/* FGS_FETCH: a load that the thread does not wait for. FGS_PUBLISH: a store that no other CPU sees before the stores
 * ahead of it; where the store is of data, FGS_STORE, the line may leave this CPU meanwhile. */
enum fgs_access { FGS_LOAD, FGS_FETCH, FGS_STORE, FGS_PUBLISH, FGS_CHANGE };

/* Where a CPU is, and which CPUs are near it. */
struct fgs_place {
	uint16_t core, complex, socket; /* of the machine, not of the part that contains it */
	uint64_t in_core[FGS_WORDS], in_complex[FGS_WORDS], in_socket[FGS_WORDS];
};

struct fgs_costs {
	fgs_ps hyperthread, complex, socket, remote, dram, dram_remote, occupied, behind;
	double spread, request;
	bool migrates;
};

extern struct fgs_place fgs_places[FGS_CPUS];
extern struct fgs_costs fgs_costs;

/* Fills the two from a machine. */
void fgs_lines_start(const struct fgs_machine *m);

/* How long a line takes from one CPU to another. */
fgs_ps fgs_distance(uint32_t from, uint32_t to);

static inline bool fgs_has_copy(const struct fgs_line *l, uint32_t cpu)
{
	return l->copies[cpu / 64] >> (cpu % 64) & 1;
}

/* Does the access take the line away from all other CPUs? */
static inline bool fgs_takes_away(const struct fgs_line *l, enum fgs_access access)
{
	if (access == FGS_LOAD || access == FGS_FETCH)
		return fgs_costs.migrates && l->owner && l->dirty;
	return true;
}

/* How long the line takes to the CPU from where it is now. */
fgs_ps fgs_latency(const struct fgs_line *l, uint32_t cpu, enum fgs_access access);

/* The line begins to move to the CPU at `start`, when it is free: returns when the CPU has it, after that part of its
 * latency. Where the access takes the line away from the others it is the owner. */
fgs_ps fgs_transfer(struct fgs_line *l, uint32_t cpu, enum fgs_access access, fgs_ps start, double part);

#endif
