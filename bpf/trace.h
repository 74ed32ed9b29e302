/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* What the tracer's two halves share: trace.bpf.c and rust/monitor/src/trace.rs. */
#ifndef FLEXGUARD_TRACE_H
#define FLEXGUARD_TRACE_H

#include "flexguard_abi.h"

#define FG_TRACE_FRAMES 48u
#define FG_TRACE_NAME 16u /* TASK_COMM_LEN */
#define FG_TRACE_THREADS 4096u
#define FG_TRACE_RING (4u << 20)

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
	fg_u32 frames; /* used entries of stack, innermost first */
	fg_u32 pad;
	fg_u64 stack[FG_TRACE_FRAMES];
};

/* One for the whole tracer. */
struct fg_trace_control {
	fg_u32 only_pid; /* written before the tracer is attached; 0: every process */
	fg_u32 waiting;  /* threads that are preempted now */
	fg_u64 lost;     /* events for which there was no memory, or whose end went unseen */
};

#endif
