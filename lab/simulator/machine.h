/* SPDX-License-Identifier: MIT */
/* A simulated machine: its topology and what things cost there. Read from a file of `key = value # source` lines, a
 * restricted TOML: FGS_KEYS says which keys there are, between which values, and what holds where the file is
 * silent. There `tick`, `slice`, `slack` and `period` are Linux's, with 250 ticks a second on 8 and more CPUs. All else
 * is assumed, of the order of what near.toml measured; `judge sweep` varies 22 keys. */
#ifndef FGS_MACHINE_H
#define FGS_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FGS_CPUS 512u /* the model holds no more */

/* X(key, least, most, default): times are in ns. */
#define FGS_KEYS(X)                                                                                                    \
	/* topology: CPU number = thread * cores + core, and cores are numbered socket by socket */                    \
	X(sockets, 1, 16, 1)                                                                                           \
	X(complexes, 1, 64, 1) /* core complexes (last-level caches) of a socket */                                    \
	X(cores, 1, 512, 2)    /* cores of a complex */                                                                \
	X(threads, 1, 4, 1)    /* hardware threads of a core */                                                        \
	/* the processor */                                                                                            \
	X(ghz, 0.1, 10, 2.2)        /* of the cycle counter */                                                         \
	X(hit, 0.1, 100, 1.2)       /* a load or store that its own cache answers, with the code around it */          \
	X(atomic, 0.5, 200, 7)      /* a read-modify-write of a line that the CPU has alone */                         \
	X(pause, 1, 1000, 28)       /* the spin hint */                                                                \
	X(counter, 1, 1000, 10)     /* to read the cycle counter */                                                    \
	X(ordered, 1, 1000, 18)     /* the same, after all loads before it */                                          \
	X(counter_step, 0, 1000, 0) /* it moves on in steps of so long; 0: at each cycle */                            \
	X(smt, 1, 4, 1.5)           /* how much slower a thread is while the core's other thread is busy */            \
	X(smt_pause, 1, 4, 1.1)     /* the same while the other thread does nothing but pause */                       \
	/* the transfer of a cache line, by the distance of the CPU that has it */                                     \
	X(hyperthread, 1, 5000, 10)                                                                                    \
	X(complex, 1, 5000, 45)                                                                                        \
	X(socket, 1, 5000, 90)                                                                                         \
	X(remote, 1, 10000, 140)                                                                                       \
	X(dram, 1, 5000, 90)        /* from memory: no CPU has it */                                                   \
	X(dram_remote, 0, 10000, 0) /* from the memory of another socket; 0: memory has one distance */                \
	X(occupied, 0.1, 1000, 10)  /* a line that is only read serves the next reader after so long */                \
	X(request, 0, 1, 0.5)       /* the part of a transfer that the request takes: the owner has the line still */  \
	X(spread, 0, 1, 0.1)        /* each transfer takes up to this part more or less */                             \
	X(nearest_first, 0, 1, 0.3) /* how often, of those that wait for a line, the nearest comes first */            \
	X(bypasses, 0, 1000, 8)     /* but one that was bypassed so often comes before it */                           \
	X(migrates, 0, 1, 0)        /* 1: a load of a line that another CPU has written takes it away from there */    \
	X(behind, 0, 1000, 0)       /* a load close behind a locked access begins so much later; 0: after it */        \
	X(store_buffer, 1, 512, 48) /* stores that may be under way */                                                 \
	/* the kernel */                                                                                               \
	X(clock, 1, 5000, 25)     /* clock_gettime, without a system call */                                           \
	X(syscall, 1, 10000, 150) /* entry and exit */                                                                 \
	X(futex, 0, 10000, 70)    /* a futex call besides: which bucket it is, and what may be done */                 \
	X(bucket, 1, 10000, 70)   /* for so long it holds its bucket's lock */                                         \
	X(queue, 1, 10000, 100)   /* for so long a wake-up holds the lock of the run queue */                          \
	X(wake, 1, 20000, 600)    /* to wake a thread: what the waker spends besides */                                \
	X(scans, 0, 1, 1)         /* how often a wake-up looks for an idle CPU if the sleeper's own one is busy */     \
	X(kick, 0, 100000, 0)     /* to interrupt another CPU: a virtual one makes the waker leave the guest */        \
	X(switch, 1, 20000, 1300) /* from one thread to another */                                                     \
	X(yield, 1, 20000, 300)   /* sched_yield, without the switch */                                                \
	X(forfeit, 0, 1, 1)       /* 1: a yield gives up the slice's virtual time (Linux 6.18); 0: it only moves  \
					* the deadline */    \
	X(tick, 100000, 10000000, 4000000)                                                                             \
	X(tick_work, 0, 20000, 1500)                                                                                   \
	X(slice, 100000, 100000000, 2800000)                                                                           \
	X(slack, 0, 10000000, 50000)   /* of timers */                                                                 \
	X(timer_set, 0, 100000, 300)   /* to make the timer interrupt at another time */                               \
	X(timer_late, 0, 100000, 0)    /* its interrupt comes so late */                                               \
	X(timer_fires, 0, 100000, 800) /* what that spends on each sleeper */                                          \
	X(migrate, 0, 100000, 1500)    /* to take a thread from another CPU's queue */                                 \
	X(clone, 100, 1000000, 12000)  /* to make a thread */                                                          \
	X(membarrier, 100, 100000, 1500)                                                                               \
	X(membarrier_cpu, 0, 10000, 60)                                                                                \
	X(interrupt, 0, 20000, 500) /* from another CPU: what the interrupted one spends */                            \
	X(monitor, 0, 10000, 150)   /* the monitor's program at a switch, without its accesses to memory */            \
	/* the control group of the program, without hogs */                                                           \
	X(quota, 0, 512, 0) /* so many CPUs' time in each period; 0: no limit */                                       \
	X(period, 1000000, 1000000000, 100000000)                                                                      \
	X(cpuset, 0, 512, 0) /* so many CPUs, the first; 0: all */                                                     \
	/* virtual machines: the topology is that of their host, and the costs hold in both (virtual.h) */             \
	X(guests, 0, 16, 0) /* so many of them; 0: none */                                                             \
	X(vcpus, 1, 256, 2) /* virtual CPUs of each */                                                                 \
	X(exit, 0, 100000, 1500)                                                                                       \
	X(ple, 0, 1000000, 0) /* a virtual CPU that has only paused for so long exits; 0: never */                     \
	/* idle states: how long it takes to leave one, and after how long idling the next deeper one is reached */    \
	X(exit_shallow, 0, 1000000, 2000)                                                                              \
	X(exit_middle, 0, 1000000, 10000)                                                                              \
	X(exit_deep, 0, 1000000, 60000)                                                                                \
	X(middle_after, 0, 100000000, 50000)                                                                           \
	X(deep_after, 0, 1000000000, 600000)                                                                           \
	X(exit_spread, 0, 1, 0.2) /* each exit takes up to this part more or less */

struct fgs_machine {
	char name[64];
	double key[64]; /* by enum fgs_key, as the file says it */
};

enum fgs_key {
#define FGS_KEY(name, least, most, preset) FGS_##name,
	FGS_KEYS(FGS_KEY)
#undef FGS_KEY
		FGS_KEYS_END
};

/* Reads a machine file. 0, or -1 after a message on stderr that names file, line and what is wrong. */
int fgs_machine_read(struct fgs_machine *m, const char *file);

/* One more line, `key=value`. The same. */
int fgs_machine_set(struct fgs_machine *m, const char *line);

/* Of its topology, and those that a program has there: the virtual CPUs of one guest, if there are guests. */
uint32_t fgs_machine_topology(const struct fgs_machine *m);
uint32_t fgs_machine_cpus(const struct fgs_machine *m);

#endif
