/* SPDX-License-Identifier: MIT */
/* A cache line's states, and what each transfer costs, on two sockets of two complexes of two cores of two threads. */
#include "simulator/line.h"

#include <assert.h>
#include <stdio.h>

static struct fgs_line line;

static fgs_ps take(uint32_t cpu, enum fgs_access access, fgs_ps start)
{
	return fgs_transfer(&line, cpu, access, start, 1) - start;
}

static unsigned int copies(void)
{
	unsigned int n = 0;

	for (uint32_t cpu = 0; cpu < 16; cpu++)
		n += fgs_has_copy(&line, cpu);
	return n;
}

/* CPU = thread * 8 + core. */
static void distances(void)
{
	assert(fgs_distance(0, 8) == fgs_costs.hyperthread);
	assert(fgs_distance(0, 1) == fgs_costs.complex && fgs_distance(0, 9) == fgs_costs.complex);
	assert(fgs_distance(0, 2) == fgs_costs.socket && fgs_distance(1, 11) == fgs_costs.socket);
	assert(fgs_distance(0, 4) == fgs_costs.remote && fgs_distance(15, 3) == fgs_costs.remote);
}

static void states(void)
{
	assert(copies() == 0 && line.owner == 0);
	assert(take(0, FGS_LOAD, 0) == fgs_costs.dram); /* the first reader has it alone */
	assert(line.owner == 1 && copies() == 1);
	assert(take(1, FGS_LOAD, 1000000) == fgs_costs.complex); /* from its owner: two copies */
	assert(line.owner == 0 && copies() == 2);
	assert(line.free_at == 1000000 + fgs_costs.complex);
	assert(take(4, FGS_LOAD, 2000000) == fgs_costs.remote); /* from the nearest that has one */
	assert(take(5, FGS_LOAD, 3000000) == fgs_costs.complex && copies() == 4);
	assert(line.free_at == 3000000 + fgs_costs.occupied);    /* another reader need not wait for this one */
	assert(take(0, FGS_STORE, 4000000) == fgs_costs.remote); /* to the farthest that loses its copy */
	assert(line.owner == 1 && copies() == 1);
	assert(take(8, FGS_CHANGE, 5000000) == fgs_costs.hyperthread && line.owner == 9 && copies() == 1);
	assert(take(2, FGS_FETCH, 6000000) == fgs_costs.socket && line.owner == 0 && copies() == 2);
	assert(fgs_transfer(&line, 2, FGS_CHANGE, 7000000, 0.5) - 7000000 == fgs_costs.socket / 2);
	assert(line.transfers == 8 && line.writes == 3);
}

/* A load of a line that its owner has written takes it away from there; the next one shares it. */
static void migration(void)
{
	line = (struct fgs_line){0};
	fgs_costs.migrates = true;
	assert(take(0, FGS_LOAD, 0) == fgs_costs.dram && !fgs_takes_away(&line, FGS_LOAD));
	assert(take(1, FGS_STORE, 1000000) == fgs_costs.complex && fgs_takes_away(&line, FGS_LOAD));
	assert(take(2, FGS_LOAD, 2000000) == fgs_costs.socket);
	assert(line.owner == 3 && copies() == 1 && !fgs_takes_away(&line, FGS_LOAD));
	assert(take(1, FGS_LOAD, 3000000) == fgs_costs.socket && line.owner == 0 && copies() == 2);
}

/* A line that no CPU has comes from the memory that it is in. */
static void homes(void)
{
	const fgs_ps near = fgs_costs.dram, far = fgs_costs.dram_remote;
	static const enum fgs_access each[] = {FGS_LOAD, FGS_FETCH, FGS_STORE, FGS_PUBLISH, FGS_CHANGE};

	for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
		for (uint32_t cpu = 0; cpu < 16; cpu++) {
			uint32_t socket = cpu % 8 / 4;

			for (uint16_t home = 0; home <= 2; home++) { /* 0: not known */
				line = (struct fgs_line){.home = home};
				assert(take(cpu, each[i], 0) == (home && home != socket + 1 ? far : near));
				assert(take((cpu + 4) % 8, each[i], 1000000) ==
				       fgs_costs.remote); /* a copy is elsewhere */
			}
		}
	}
}

int main(void)
{
	struct fgs_machine m = {.key = {[FGS_sockets] = 2,
					[FGS_complexes] = 2,
					[FGS_cores] = 2,
					[FGS_threads] = 2,
					[FGS_hyperthread] = 10,
					[FGS_complex] = 40,
					[FGS_socket] = 80,
					[FGS_remote] = 140,
					[FGS_dram] = 90,
					[FGS_dram_remote] = 150,
					[FGS_occupied] = 5}};

	fgs_lines_start(&m);
	distances();
	states();
	migration();
	fgs_costs.migrates = false;
	homes();
	puts("ok");
	return 0;
}
