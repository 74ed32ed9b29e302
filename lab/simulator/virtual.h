/* SPDX-License-Identifier: MIT */
/* Two levels. With `guests` in the machine file the CPUs that threads run on are virtual ones, `vcpus` of each guest,
 * and each of them is a thread of a host, whose CPUs are those of the topology. The host's CPUs stand behind the
 * virtual ones in fgs_cpus, and the scheduler (sched.c) serves both: a set of allowed CPUs keeps the threads of a guest
 * on its virtual CPUs, and virtual CPUs on the host's.
 *
 *   A virtual CPU exits when it idles (HLT), when the host's scheduler wants its CPU, when it has done nothing but
 *   pause for `ple` (pause-loop exiting: its host's CPU goes to a virtual CPU of the guest that waits for one), and by
 *   a call.
 *   While it is off, its clock stands still, and no event of it comes; then the clock leaps.
 *   Each exit costs `exit`, and who interrupts a virtual CPU that idles pays `kick`.
 *
 * Lines move between virtual CPUs as within one complex, wherever the host runs them. The worker's process is in the
 * first guest, hogs are in the others. */
#ifndef FGS_VIRTUAL_H
#define FGS_VIRTUAL_H

#include "simulator/engine.h"

static inline uint32_t fgs_virtual_count(const struct fgs_machine *m)
{
	return (uint32_t)(m->key[FGS_guests] * m->key[FGS_vcpus]);
}

void fgs_virtual_start(void);

/* The thread runs on the virtual CPUs of its process's guest. */
void fgs_virtual_confine(struct fgs_thread *t);

/* A thread waits on a virtual CPU that idled: the host wakes it. */
void fgs_virtual_wakes(struct fgs_cpu *v, fgs_ps now);

/* The virtual CPU exits, and its thread of the host sleeps, yields, or was preempted. */
void fgs_virtual_leaves(struct fgs_cpu *v, enum fgs_leaves why);

/* The host's CPU is to run another virtual CPU. */
void fgs_host_interrupts(struct fgs_cpu *host, fgs_ps now);

/* An event of a CPU of the host: its tick, or it has left its idle state. */
void fgs_host_goes_on(struct fgs_cpu *host);

/* The virtual CPU `v` has only paused for `ple`: the host looks for one of the same guest that waits for a CPU. */
void fgs_virtual_spins(struct fgs_cpu *v);

#endif
