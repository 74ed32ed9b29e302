/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* What the tracer's two halves share: trace.bpf.c and monitor/src/trace.rs. */
#ifndef FLEXGUARD_TRACE_H
#define FLEXGUARD_TRACE_H

#include "flexguard_abi.h"

#define FG_TRACE_FRAMES 48u
#define FG_TRACE_NAME 16u /* TASK_COMM_LEN */
#define FG_TRACE_THREADS 4096u
#define FG_TRACE_RING (4u << 20)
#define FG_TRACE_SLEEPERS 16384u
#define FG_TRACE_UNKNOWN 0xffffffffu

/* A critical section that was preempted. Numbers are those of the initial PID namespace, times CLOCK_MONOTONIC. */
struct fg_trace_event {
	fg_u64 since_ns; /* when the thread lost its CPU, and when it got one again */
	fg_u64 until_ns;
	fg_u64 lock; /* the address of the lock's word; 0: unknown */
	fg_u32 pid;
	fg_u32 tid;
	fg_u32 kind; /* enum fg_kind of monitor.h */
	fg_u32 cpu;  /* that it lost */
	fg_u32 by_pid;
	fg_u32 by_tid;
	char name[FG_TRACE_NAME]; /* of the thread, and of the one that took its CPU */
	char by_name[FG_TRACE_NAME];
	fg_u32 frames;  /* used entries of stack, innermost first */
	fg_u32 waiters; /* that slept on the lock's word when the thread ran again; FG_TRACE_UNKNOWN */
	fg_u64 stack[FG_TRACE_FRAMES];
};

/* A word on which threads of a process sleep in futex(2). If the word of a lock names its owner, its waiters sleep
 * there. */
struct fg_trace_word {
	fg_u64 address;
	fg_u32 pid;
	fg_u32 pad;
};

/* Threads that have gone to sleep there, and have not run since. */
struct fg_trace_sleepers {
	fg_u64 since_ns; /* when this record was made: a word may have had another one before */
	fg_s32 number;
	fg_u32 pad;
};

/* A thread that sleeps, and in which record of its word it is counted. */
struct fg_trace_sleep {
	struct fg_trace_word word;
	fg_u64 counted_since_ns;
};

/* One for the whole tracer. */
struct fg_trace_control {
	fg_u32 only_pid; /* written before the tracer is attached; 0: every process */
	fg_u32 waiting;  /* threads that are preempted now */
	fg_u64 lost;     /* events for which there was no memory, or whose end went unseen */
};

#endif
