/* SPDX-License-Identifier: (MIT OR GPL-2.0-only) */
/* What only the monitor's two halves share: the records behind its BPF maps. Both halves are built together. But a
 * monitor may take over the maps of the one before it, of another build: if FG_ABI_VERSION and FG_RECORDS_VERSION are
 * the same. Every change of a layout or of a meaning raises the latter. */
#ifndef FLEXGUARD_MONITOR_H
#define FLEXGUARD_MONITOR_H

#include "flexguard_abi.h"

#define FG_RECORDS_VERSION 11u

/* Why a thread is critical, in the order of what it costs other threads: a stalled holder stalls all of them. */
enum fg_kind {
	FG_KIND_NONE = 0,
	FG_KIND_NEXT_WAITER = 1,
	FG_KIND_HOLDER = 2,
	FG_AGED = 4, /* besides one of them: off its CPU for FG_AGED_NS, so the counter no longer has it */
};

/* Longer than any time slice, and than the 100 ms period of cpu.max. */
#define FG_AGED_NS 1000000000ull

/* Whose the domains are (find_domain): those below FG_COMMON_DOMAINS anybody's; then, for each class of users, so many
 * of a key each, and as many that its further keys share. */
#define FG_COMMON_DOMAINS 64u
#define FG_CLASS_DOMAINS 8u
#define FG_CLASSES 4u
/* The key of a domain that several share, with its number. */
#define FG_SHARED_KEY (4ull << 56)

FG_ABI_ASSERT(FG_COMMON_DOMAINS + FG_CLASSES * 2 * FG_CLASS_DOMAINS == FG_DOMAINS);

static inline int fg_is_shared_domain(fg_u64 domain)
{
	return domain >= FG_COMMON_DOMAINS && (domain & FG_CLASS_DOMAINS) != 0;
}

/* The windows of an image, relative to where the first begins. Images of one file have one table, wherever they are
 * loaded, and a fork has its parent's. Writer: the user half, before a record names it. */
#define FG_TABLES 1024u /* the first is not used: an image without windows has number 0 */

struct fg_table {
	fg_u32 n_windows; /* 0: free */
	fg_u32 searched;  /* as in struct fg_domain: the latest search that found a process with it */
	fg_u64 span;      /* the last window ends there */
	fg_u64 account;   /* whose registration it came with */

	struct fg_window windows[FG_MAX_WINDOWS];
};

struct fg_image {
	fg_u64 base;         /* where its first window begins */
	fg_s32 block_offset; /* of its thread block from the thread pointer */
	fg_u32 table;        /* of its windows; 0: it has none */
};

/* One a process, in the storage of its thread-group leader: all its images together. The kernel charges it to the
 * monitor, so it is small.
 * Writer: the user half on registration, the fork hook for a child. Replaced as a whole; only fg_tie edits it in
 * place, while no thread is judged by it. */
struct fg_process_record {
	fg_u64 exec_id; /* of the program that registered: a record that outlives its program judges nobody */
	fg_u64 account; /* whose share of the records it takes (account_of) */
	fg_u32 n_images;
	fg_u32 flags;  /* FG_WANT_*, of all images together */
	fg_u32 domain; /* given with its first image, and kept; a child has its parent's */
	fg_u32 pad;

	struct fg_image images[FG_MAX_IMAGES];

	/* Written by the sched_switch hook, for what shows the monitor's state; a registration may lose a few. */
	struct fg_process_counts {
		fg_u64 preempted_holders;
		fg_u64 preempted_next_waiters;
		fg_u64 preempted_ns; /* time that its threads were off CPU while they were counted */
	} counts;
};

FG_ABI_ASSERT(sizeof(struct fg_process_record) <= 128);

/* What the kernel charges to the monitor for a process, and for each of its threads: the records, with what the kernel
 * keeps beside them (docs/guide/monitor.md). All records together may take FG_RECORD_BYTES. */
#define FG_PROCESS_BYTES 256u
#define FG_THREAD_BYTES 512u
#define FG_RECORD_BYTES (32u << 20)

/* One a thread of a registered process. Writer: the sched_switch hook, on the CPU that switches the thread, so that the
 * run-queue lock orders all accesses; fg_age adds FG_AGED, by compare-and-swap. User space cannot reach it, so no
 * process can forge a count. */
struct fg_thread_record {
	fg_u32 counted_as; /* enum fg_kind; FG_KIND_NONE, or with FG_AGED: it is not part of num_preempted_cs */
	fg_u32 named_as;   /* what it has put into `off_cpu` of its domain; 0: nothing */
	fg_u64 since_ns;   /* when it was counted, CLOCK_MONOTONIC */
	fg_u32 by_tgid;    /* who took its CPU then */
	fg_u32 by_tid;
	fg_u32 domain; /* in whose counter it is, and in whose `off_cpu` */
	fg_u32 noted;  /* the note beside that name; 0: none */
};

/* What fg_list says of a thread: that it leads a registered process, that it is counted, or both. */
struct fg_listed {
	fg_u32 tgid;
	fg_u32 tid;
	fg_u32 registered; /* 1: the thread leads a process that is judged */
	fg_u32 counted_as; /* enum fg_kind, perhaps with FG_AGED */
	fg_u64 since_ns;
	fg_u32 by_tgid; /* as in fg_thread_record; of a thread that is counted */
	fg_u32 by_tid;
	fg_u64 preempted_holders; /* as in fg_process_counts; of a thread that leads a process */
	fg_u64 preempted_next_waiters;
	fg_u64 preempted_ns;
	fg_u32 domain;         /* of the process, or of a thread that is counted */
	fg_u32 domain_counter; /* of that domain */
	fg_u64 domain_key;
};

/* What fg_census says of a registered process. */
struct fg_counted_process {
	fg_u64 account;
	fg_u32 threads;
	fg_u32 wants; /* FG_WANT_* */
};

/* The accounts that have as many registered processes, or as much of the records, as one may have: their forks inherit
 * none. A few at a time. */
#define FG_FULL_ACCOUNTS 32u

struct fg_full_accounts {
	fg_u64 number;
	fg_u64 account[FG_FULL_ACCOUNTS];
};

/* What the map `budget` has. */
enum fg_budget {
	FG_BUDGET_LEFT = 0,   /* bytes that records may still take, by the kernel half, and by a census what is true */
	FG_BUDGET_FOUND = 1,  /* bytes of the records that the census under way has found */
	FG_BUDGET_BARREN = 2, /* forks that inherited no registration: of a full account, or for lack of budget */
	FG_BUDGET_FREED = 3,  /* bytes of records that were ever given back */
	FG_BUDGET_ENTRIES = 4,
};

/* Entry i counts the critical sections that were preempted for FG_SHORTEST_NS * 2^i at most, and longer than the entry
 * before; the last one, all that were longer. */
#define FG_DURATIONS 16u
#define FG_SHORTEST_NS 16384u

/* One a CPU, only ever written by it, and only incremented, except `process` and what is said of it. */
struct fg_cpu_counts {
	fg_u64 switches;
	fg_u64 process;                /* tgid of the process that has the CPU */
	fg_u64 process_since_ns;       /* by the clock of the CPU's run queue */
	fg_u64 process_waits;          /* its thread did not go to sleep when it last lost the CPU */
	fg_u64 said_to_wait;           /* the page says so of the process before it */
	fg_u64 registered_preemptions; /* switches that took the CPU from a runnable thread of a registered process */
	fg_u64 inherited_processes;    /* records copied by the fork hook */
	fg_u64 lost_records;           /* records for which there was no memory */
	fg_u64 unreadable;             /* switches at which a thread block or what it points to was not in memory */
	fg_u64 preempted_ns;           /* time off CPU of the critical sections in `durations` */
	fg_u64 durations[FG_DURATIONS];
	fg_u64 aged; /* threads that fg_age took out of the counter */
};

/* Argument of fg_beat. */
struct fg_beat_args {
	fg_u32 alive; /* 0: goodbye */
	fg_u32 tick_ns;
	fg_u32 cpus;
	fg_u32 domain_kind; /* enum fg_domain_kind */
};

/* Argument of fg_off_line. */
struct fg_off_line_args {
	fg_u32 cpu;
	fg_u32 pad;
};

/* Argument of fg_rest: what still is needed. */
struct fg_rest_args {
	fg_u32 any;    /* some process is registered */
	fg_u32 slices; /* some process wants the slice forecasts */
};

/* Argument of fg_settle. */
struct fg_settle_args {
	fg_u32 begins; /* a recount: nothing is settled yet */
	fg_u32 quiet;
	fg_u32 dead;  /* out: so many threads that had died were taken out of the counter */
	fg_u32 again; /* out: of so many counters another recount has to tell */
};

/* What the last recounts found in a domain. */
struct fg_recounted {
	fg_u32 counter; /* as the recount began */
	fg_u32 threads; /* that are counted */
	fg_u32 surplus; /* of the counter, the time before */
};

/* Argument of fg_search_domains. */
struct fg_search_args {
	fg_u32 ends; /* 0: the search begins */
	fg_u32 pad;
};

#endif
