/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* What the watch over waits shares between its two halves: futex.bpf.c and monitor/src/futex.rs. */
#ifndef FLEXGUARD_FUTEX_H
#define FLEXGUARD_FUTEX_H

#include "flexguard_abi.h"

#define FG_FUTEX_WORDS 16384u
#define FG_FUTEX_WAITERS 16384u
#define FG_FUTEX_RING (8u << 20)
/* A sample stands for so much time: a wait is sampled with the probability of its time in this, a longer one always. */
#define FG_FUTEX_SAMPLE_NS 10000000u
#define FG_FUTEX_STACK 4096u /* bytes of a stack that are copied */

/* One for the whole watch. */
struct fg_futex_control {
	fg_u32 pid; /* written before it is attached */
	fg_u32 pad;
	fg_u64 lost_waits;   /* for which the tables had no place */
	fg_u64 lost_samples; /* for which the ring had none, because the reader is too slow */
};

/* A thread that waits now. */
struct fg_futex_begun {
	fg_u64 since_ns;
	fg_u64 word;
};

/* What is known of a word. All waits are counted. */
struct fg_futex_word {
	fg_u64 waits;
	fg_u64 ns;
	fg_u64 longest_ns;
};

/* A wait that has ended. Times are of CLOCK_MONOTONIC, numbers of the initial PID namespace. */
struct fg_futex_sample {
	fg_u64 since_ns;
	fg_u64 ns;
	fg_u64 word; /* the address of the futex */
	fg_u64 ip;   /* the registers of the thread in user space */
	fg_u64 sp;
	fg_u64 bp;
	fg_u32 tid;
	fg_u32 bytes; /* of stack that could be copied, from sp on */
	fg_u8 stack[FG_FUTEX_STACK];
};

#endif
