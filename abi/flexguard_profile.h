/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What a profiled process writes, and `flexguard profile` reads: one sparse file a process image, mapped shared.
 *
 * C and Rust (through bindgen) build from this one file, and both come from one installation. All memory begins as
 * zeros. The command reads the file when the program has ended, however it ended: a count may be one event behind, and
 * what is `FG_PROFILE_BUSY` was never finished.
 *
 * A thread counts in a block of its own, without atomic operations. What it cannot count there, because a table is
 * full, it adds to the lock's own counts, so that acquisitions and contended ones are exact. Times and call stacks are
 * taken of some acquisitions only; each stands for `weight` of them, and is added that often. */
#ifndef FLEXGUARD_PROFILE_H
#define FLEXGUARD_PROFILE_H

#include "flexguard_abi.h"

#define FG_PROFILE_MAGIC 0x46505246u
#define FG_PROFILE_ENV "FLEXGUARD_PROFILE" /* names the directory that the files are in */

#define FG_PROFILE_BLOCKS 1024 /* threads at a time that count by themselves */
#define FG_PROFILE_COUNTS 512  /* locks that such a thread counts by itself */
#define FG_PROFILE_LOCKS 8192  /* of a process */
#define FG_PROFILE_SITES 8192  /* pairs of a lock and a call stack */
#define FG_PROFILE_MODULES 256 /* files that code and locks are in */
#define FG_PROFILE_FRAMES 16   /* of a call stack */
#define FG_PROFILE_PATH 232    /* bytes of a file's name, with the zero at its end */
#define FG_PROFILE_BUCKETS 160 /* of a histogram of times: four for each power of two, up to 36 minutes */

/* What a lock is. */
#define FG_PROFILE_MUTEX 0u
#define FG_PROFILE_RWLOCK 1u
#define FG_PROFILE_COND 2u
#define FG_PROFILE_SEMAPHORE 3u
#define FG_PROFILE_BARRIER 4u

/* The state of a site or a module. */
#define FG_PROFILE_EMPTY 0u
#define FG_PROFILE_BUSY 1u /* a thread writes it, or has died over it */
#define FG_PROFILE_READY 2u

/* What a thread counts of a lock. Written by the thread that owns the block. */
struct fg_profile_counts {
	fg_u64 mutex; /* its address; 0: this entry is free */
	fg_u64 acquisitions;
	fg_u64 contended;  /* of them: the lock was held when the thread asked for it */
	fg_u64 failed;     /* a trylock that found it held, a deadline that passed, an error */
	fg_u64 cond_waits; /* acquisitions at the end of a wait on a condition variable; not among `acquisitions` */
	fg_u32 lock;       /* its index in `locks` */
	fg_u32 until_hold; /* acquisitions until the next whose hold is timed */
	fg_u32 until_wait; /* contended acquisitions until the next whose wait is timed */
	fg_u32 pad[3];     /* a cache line */
};

struct fg_profile_block {
	struct fg_profile_counts counts[FG_PROFILE_COUNTS];
};

/* Sums over what was timed, each times its weight. Written by all threads. */
struct fg_profile_times {
	fg_u64 ns;
	fg_u64 max_ns; /* of those that were timed */
	fg_u64 buckets[FG_PROFILE_BUCKETS];
};

struct fg_profile_lock {
	fg_u64 mutex; /* its address; 0: this entry is free */
	fg_u32 kind;  /* that of the first lock at this address */
	fg_u32 first; /* the index of its first call site, plus one; 0: none was stored */
	/* What threads counted whose blocks were full. */
	fg_u64 acquisitions;
	fg_u64 contended;
	fg_u64 failed;
	fg_u64 cond_waits;
	struct fg_profile_times wait; /* of contended acquisitions */
	struct fg_profile_times hold;
};

struct fg_profile_site {
	fg_u32 state;
	fg_u32 lock;
	fg_u32 frames;
	fg_u32 pad;
	fg_u64 stack[FG_PROFILE_FRAMES]; /* innermost first; all are return addresses */
	fg_u64 acquisitions;             /* estimates: what was timed, times its weight */
	fg_u64 wait_ns;
	fg_u64 hold_ns;
};

struct fg_profile_module {
	fg_u32 state;
	fg_u32 pad;
	fg_u64 start; /* its addresses are from here */
	fg_u64 end;   /* to before here */
	fg_u64 base;  /* what the loader has added to the file's own addresses */
	char path[FG_PROFILE_PATH];
};

struct fg_profile {
	fg_u32 magic;
	fg_u32 pid;
	fg_u64 size;              /* of this struct */
	char name[16];            /* of the process */
	fg_u64 lost_acquisitions; /* not counted: `locks` was full */
	fg_u64 lost_sites;        /* timed, but without a call stack: `sites` was full */
	fg_u64 lost_holds;        /* not timed: the thread held more timed locks at once than it can remember */
	fg_u32 block_used[FG_PROFILE_BLOCKS]; /* 1: a running thread has it */
	struct fg_profile_module modules[FG_PROFILE_MODULES];
	struct fg_profile_site sites[FG_PROFILE_SITES];
	struct fg_profile_lock locks[FG_PROFILE_LOCKS];
	struct fg_profile_block blocks[FG_PROFILE_BLOCKS];
};

#endif
