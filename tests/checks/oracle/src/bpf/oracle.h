/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* What the oracle's two halves share: one record for each switch from or to a worker. */
#ifndef FLEXGUARD_ORACLE_H
#define FLEXGUARD_ORACLE_H

#include <linux/types.h>

#define ORACLE_LOCKS 2
#define ORACLE_NODES 16
#define ORACLE_NOBODY 0xffffffffu

/* The part of a queue node that the queue's protocol lives in. */
struct oracle_node {
	__u64 next;
	__u32 state;
	__u32 pad;
};

/* ORACLE_*: what is true of prev. */
enum oracle_flags {
	ORACLE_RUNNABLE = 1,   /* it lost the CPU, it did not go to sleep */
	ORACLE_FORCED = 2,     /* and not by a system call of its own: an interrupt took it away */
	ORACLE_UNREADABLE = 4, /* some memory below could not be read */
	ORACLE_NO_VERDICT = 8, /* the monitor has no record of it */
};

struct oracle_event {
	__u64 sequence;
	__u64 at_ns; /* CLOCK_MONOTONIC, after the monitor's handler */
	__u32 prev;  /* index of the worker, or ORACLE_NOBODY */
	__u32 next;
	__u32 flags;
	__u32 verdict; /* the monitor counted prev as: enum fg_kind */
	__u32 counter; /* num_preempted_cs after the monitor's handler */
	__u32 cpu;     /* for the statistics */

	/* Evidence: the locks' own memory. */
	__u8 locks[ORACLE_LOCKS][16];
	struct oracle_node nodes[ORACLE_NODES];

	/* Not evidence. For the statistics, and to explain a disagreement. */
	__u64 ip;
	__s32 held;
	__u32 own_state; /* state of the node that the thread block names */
	__u64 node;
	__u64 pending;
};

/* Set before the hook is attached. */
struct oracle_config {
	__s32 tgid;  /* the victim's, as gettid() and getpid() say it there */
	__u32 nodes; /* 0: a lock without queue */
	__u64 lock_addresses[ORACLE_LOCKS];
	__u64 nodes_address;
};

struct oracle_counts {
	__u64 events;
	__u64 lost; /* there was no space for them */
};

/* One a worker, by tid. */
struct oracle_worker {
	__u64 block;
	__u32 index;
	__u32 pad;
};

#endif
