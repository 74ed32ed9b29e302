/* SPDX-License-Identifier: MIT */
#include "simulator/line.h"

#include <string.h>

struct fgs_place fgs_places[FGS_CPUS];
struct fgs_costs fgs_costs;

static void fill(uint64_t *set, uint32_t cpus, uint32_t cpu, size_t offset)
{
	for (uint32_t i = 0; i < cpus; i++) {
		const uint16_t *mine = (const uint16_t *)(const void *)((const char *)&fgs_places[cpu] + offset);
		const uint16_t *its = (const uint16_t *)(const void *)((const char *)&fgs_places[i] + offset);

		if (*mine == *its)
			set[i / 64] |= 1ull << i % 64;
	}
}

static const uint64_t nowhere[FGS_WORDS];

static fgs_ps ps(double ns)
{
	return (fgs_ps)(ns * (double)FGS_NS);
}

void fgs_lines_start(const struct fgs_machine *m)
{
	uint32_t topology = fgs_machine_topology(m), per_complex = (uint32_t)m->key[FGS_cores],
		 per_socket = per_complex * (uint32_t)m->key[FGS_complexes],
		 cores = topology / (uint32_t)m->key[FGS_threads], each = (uint32_t)m->key[FGS_vcpus],
		 virtual = (uint32_t)m->key[FGS_guests] * each, cpus = virtual + topology;

	memset(fgs_places, 0, sizeof(fgs_places));
	for (uint32_t i = 0; i < topology; i++) {
		fgs_places[virtual + i].core = (uint16_t)(i % cores);
		fgs_places[virtual + i].complex = (uint16_t)(i % cores / per_complex);
		fgs_places[virtual + i].socket = (uint16_t)(i % cores / per_socket);
	}
	for (uint32_t i = 0; i < virtual; i++) { /* each guest is a complex, and a socket */
		fgs_places[i].core = (uint16_t)(FGS_CPUS + i);
		fgs_places[i].complex = fgs_places[i].socket = (uint16_t)(FGS_CPUS + i / each);
	}
	for (uint32_t i = 0; i < cpus; i++) {
		fill(fgs_places[i].in_core, cpus, i, offsetof(struct fgs_place, core));
		fill(fgs_places[i].in_complex, cpus, i, offsetof(struct fgs_place, complex));
		fill(fgs_places[i].in_socket, cpus, i, offsetof(struct fgs_place, socket));
	}
	fgs_costs = (struct fgs_costs){
		.hyperthread = ps(m->key[FGS_hyperthread]),
		.complex = ps(m->key[FGS_complex]),
		.socket = ps(m->key[FGS_socket]),
		.remote = ps(m->key[FGS_remote]),
		.dram = ps(m->key[FGS_dram]),
		.dram_remote = ps(m->key[FGS_dram_remote]),
		.occupied = ps(m->key[FGS_occupied]),
		.behind = ps(m->key[FGS_behind]),
		.spread = m->key[FGS_spread],
		.request = m->key[FGS_request],
		.migrates = m->key[FGS_migrates] != 0,
	};
}

fgs_ps fgs_distance(uint32_t from, uint32_t to)
{
	const struct fgs_place *a = &fgs_places[from], *b = &fgs_places[to];

	if (a->core == b->core)
		return fgs_costs.hyperthread;
	if (a->complex == b->complex)
		return fgs_costs.complex;
	return a->socket == b->socket ? fgs_costs.socket : fgs_costs.remote;
}

/* Has any CPU of the set a copy, besides `cpu`? */
static bool any_in(const struct fgs_line *l, const uint64_t *set, uint32_t cpu)
{
	uint64_t found = 0;

	for (uint32_t w = 0; w < FGS_WORDS; w++)
		found |= l->copies[w] & set[w] & ~(w == cpu / 64 ? 1ull << cpu % 64 : 0);
	return found;
}

static bool any_outside(const struct fgs_line *l, const uint64_t *set)
{
	uint64_t found = 0;

	for (uint32_t w = 0; w < FGS_WORDS; w++)
		found |= l->copies[w] & ~set[w];
	return found;
}

/* No CPU has a copy. */
static fgs_ps from_memory(const struct fgs_line *l, uint32_t cpu)
{
	return l->home && l->home != fgs_places[cpu].socket + 1 ? fgs_costs.dram_remote : fgs_costs.dram;
}

static fgs_ps nearest(const struct fgs_line *l, uint32_t cpu)
{
	const struct fgs_place *p = &fgs_places[cpu];

	if (any_in(l, p->in_core, cpu))
		return fgs_costs.hyperthread;
	if (any_in(l, p->in_complex, cpu))
		return fgs_costs.complex;
	if (any_in(l, p->in_socket, cpu))
		return fgs_costs.socket;
	return any_outside(l, p->in_socket) ? fgs_costs.remote : from_memory(l, cpu);
}

/* All copies but `cpu`'s must go: the farthest takes longest. */
static fgs_ps farthest(const struct fgs_line *l, uint32_t cpu)
{
	const struct fgs_place *p = &fgs_places[cpu];

	if (any_outside(l, p->in_socket))
		return fgs_costs.remote;
	if (any_outside(l, p->in_complex))
		return fgs_costs.socket;
	if (any_outside(l, p->in_core))
		return fgs_costs.complex;
	if (any_in(l, p->in_core, cpu))
		return fgs_costs.hyperthread;
	return fgs_has_copy(l, cpu) ? fgs_costs.occupied : from_memory(l, cpu);
}

static bool reads(enum fgs_access access)
{
	return access == FGS_LOAD || access == FGS_FETCH;
}

fgs_ps fgs_latency(const struct fgs_line *l, uint32_t cpu, enum fgs_access access)
{
	if (l->owner)
		return fgs_distance(cpu, l->owner - 1u);
	return reads(access) ? nearest(l, cpu) : farthest(l, cpu);
}

/* The first reader has a line alone. */
fgs_ps fgs_transfer(struct fgs_line *l, uint32_t cpu, enum fgs_access access, fgs_ps start, double part)
{
	bool away = fgs_takes_away(l, access), shared = reads(access) && !l->owner;
	bool fresh = shared && !any_outside(l, nowhere);
	fgs_ps takes = (fgs_ps)((double)fgs_latency(l, cpu, access) * part);

	l->transfers++;
	if (away)
		memset(l->copies, 0, sizeof(l->copies));
	l->writes += !reads(access);
	l->dirty = !reads(access);
	l->owner = away || fresh ? (uint16_t)(cpu + 1) : 0;
	l->copies[cpu / 64] |= 1ull << cpu % 64;
	l->free_at = start + (shared ? fgs_costs.occupied : takes);
	return start + takes;
}
