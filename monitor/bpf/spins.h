/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* What the two halves of the spin report share: spins.bpf.c and monitor/src/spins.rs. */
#ifndef FLEXGUARD_SPINS_H
#define FLEXGUARD_SPINS_H

#include "flexguard_abi.h"

#define FG_SPIN_PROCESSES 16384u
#define FG_SPIN_THREADS 65536u
#define FG_SPIN_RING (1u << 20)
#define FG_SPIN_ANCESTORS 16
#define FG_SPIN_UNKNOWN 0xffffffffu
#define FG_SPIN_USER 0xffffffffu /* no system call */

enum fg_spin_state {
	FG_SPIN_ASLEEP = 0,
	FG_SPIN_RUNS = 1,
	FG_SPIN_WAITS = 2, /* runnable, and off its CPU */
};

#define FG_SPIN_TICK_NS 10000000u /* no kernel ticks more seldom */

/* What a thread does, and when it last came to its CPU, or was seen first, with the CPU time that it had had. `added`
 * is the part of its CPU time that is in the sum or was had before. */
struct fg_spin_thread {
	fg_u32 state; /* enum fg_spin_state */
	fg_u32 padding;
	fg_u64 since;
	fg_u64 cpu_ns;
	fg_u64 added;
};

/* Where a thread of the program was when a period of CPU time was over. Numbers are those of the initial PID
 * namespace. */
struct fg_spin_sample {
	fg_u64 ip;     /* in user mode, or where it entered the kernel */
	fg_u64 cpu_ns; /* CPU time of its thread */
	fg_u64 begun;  /* when that thread began: its number is used again */
	fg_u64 task;   /* its address in the kernel: a thread that calls exec takes over the number and the beginning
			* of its process's first thread, and keeps its own CPU time */
	fg_u64 caller; /* the word on top of its stack: in a function that has put nothing there, who called it; or 0 */
	fg_u32 pid;
	fg_u32 tid;
	fg_u32 waiting; /* other threads of the program that were runnable and off their CPU; FG_SPIN_UNKNOWN */
	fg_u32 call;    /* the number of the system call that it was in; FG_SPIN_USER */
};

/* One for the whole sampler. */
struct fg_spin_control {
	fg_u32 root;      /* written before it is attached: the program is this process and those that come of it */
	fg_u32 without;   /* written before it is attached: 1: without this process itself */
	fg_u32 is_known;  /* each thread has been looked at */
	fg_u32 forgotten; /* threads or processes for which there was no memory: what waits is then not known */
	fg_u64 lost;      /* samples for which there was no memory */
	fg_s64 waiting;   /* threads of the program in FG_SPIN_WAITS */
	fg_s64 cpu_ns;    /* CPU time of all threads; of those that run now, until their last sample */
};

#endif
