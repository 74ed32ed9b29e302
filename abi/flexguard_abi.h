/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The ABI between user space and the Preemption Monitor's kernel half.
 *
 * C, BPF and Rust (through bindgen) all build from this one file. It never varies by a -D flag. Every change of
 * a layout or of a meaning raises FG_ABI_VERSION; the monitor refuses a client that speaks another version.
 *
 * Glossary
 *   thread block    what a thread publishes about itself: TLS, one cache line, written by its thread alone
 *   shared page     what the monitor publishes: mapped read-only by every client
 *   domain          the processes that react to each other's critical sections: those of a user, say
 *   window          a range of instructions in which a thread holds a lock although `held` does not say so
 *   intent          the other way to say the same: "look whether this word names me"
 *   image           one shared object or executable that carries lock code: its windows and its thread block
 */
#ifndef FLEXGUARD_ABI_H
#define FLEXGUARD_ABI_H

#ifdef __bpf__
typedef unsigned char fg_u8;
typedef unsigned short fg_u16;
typedef unsigned int fg_u32;
typedef signed int fg_s32;
typedef unsigned long long fg_u64;
typedef signed long long fg_s64;
#else
#include <stdint.h>
typedef uint8_t fg_u8;
typedef uint16_t fg_u16;
typedef uint32_t fg_u32;
typedef int32_t fg_s32;
typedef uint64_t fg_u64;
typedef int64_t fg_s64;
#endif

#define FG_ABI_MAGIC 0x44474c46u /* "FLGD", little endian */
#define FG_ABI_VERSION 12u
#define FG_CACHE_LINE 64
#define FG_PAGE 4096

/* ---- the thread block ------------------------------------------------------------------------------------------
 * Found by the monitor at (thread pointer + fg_registration.block_offset) of the thread that is being switched out.
 * A thread is CRITICAL iff one of
 *   held > 0                                      it owns a lock, or is passing on the head of a queue
 *   node != 0 and node->state == FG_NODE_GRANTED  it is the head of a queue: the next waiter
 *   pending != 0 and (*(u32 *)pending & FG_OWNER_MASK) == self      published intent
 *   its user instruction pointer lies in a window whose condition holds
 */
struct fg_thread_block {
	fg_s32 held;    /* critical sections this thread is in, without the one that `pending` shows; may be negative */
	fg_u32 self;    /* how lock words name this thread: its tid; 0 until the thread's first lock */
	fg_u64 node;    /* address of the fg_queue_node it is queued with, or 0 */
	fg_u64 pending; /* address of the u32 lock word that it owns, is about to take or has just released, or 0 */
	fg_u32 life;    /* with `self` a handle: which of the threads that had this tid it is; 0: it has no handle */
	fg_u32 parks;   /* futex waits that a waiter entered (statistics, as what follows: the monitor stops here) */
	fg_u64 spins;   /* iterations of busy-waiting (lib/runtime/spin.h; statistics) */
	/* The default lock's state for this thread (lib/lock/default/). No other lock uses it, and the monitor does not
	 * read it: two shared objects with different locks in one process share the thread block. */
	fg_u64 lock_private[3];
};

#define FG_OWNER_MASK 0x1fffffffu /* the bits of a lock word that name its owner (a Linux tid has 22) */

/* ---- queue nodes -----------------------------------------------------------------------------------------------
 * In type-stable memory: never unmapped, so that the monitor and a late predecessor may always dereference one. */
struct fg_queue_node {
	fg_u64 next;  /* the successor writes its address here once: the link */
	fg_u32 state; /* FG_NODE_*; see lab/locks/parts/mcs_queue.h for what moves it */
	fg_u32 pad;
	fg_u64 tail;            /* address of the tail word of the queue it is or was last in */
	fg_u64 free;            /* link of a free list */
	fg_u64 owner;           /* address of its thread's thread block */
	fg_u64 lock_private[3]; /* for the lock whose queue the node is in: each lock file says what it keeps there */
};

enum fg_node_state {
	FG_NODE_FREE = 0,    /* in no queue */
	FG_NODE_WAITING = 1, /* queued, behind the head */
	FG_NODE_GRANTED = 2, /* the head of its queue */
	FG_NODE_LEFT = 3,    /* still linked, its thread no longer waits: the head skips it */
	FG_NODE_PASSED = 4,  /* was LEFT and is being skipped: FREE in a moment */
	FG_NODE_OWNED = 5,   /* MCS: its thread owns the lock and has said so in `held` */
};

/* ---- windows ---------------------------------------------------------------------------------------------------
 * An instruction pointer in (begin, end] is critical iff (register & mask) == value. `begin` is the address of the
 * instruction that takes the lock (at begin it has not executed yet), `end` that of the instruction after which
 * `held` tells the truth again. reg == FG_REG_NONE: always critical. */
struct fg_window {
	fg_u64 begin;
	fg_u64 end;
	fg_u64 mask;
	fg_u64 value;
	fg_u32 reg; /* FG_REG_* */
	fg_u32 pad;
};

/* User registers of the preempted thread. The numbers 1 to 7 mean other registers on each architecture. */
enum fg_reg {
	FG_REG_NONE = 0,
	FG_REG_AX = 1,
	FG_REG_BX = 2,
	FG_REG_CX = 3,
	FG_REG_DX = 4,
	FG_REG_SI = 5,
	FG_REG_DI = 6,
	FG_REG_FLAGS = 7,
	FG_REG_ARM64_X9 = 1, /* and so on, to x15 */
	FG_REG_ARM64_X10 = 2,
	FG_REG_COUNT = 8,
};

#define FG_MAX_WINDOWS 64u       /* a process, all images together */
#define FG_MAX_WINDOW_BYTES 512u /* end - begin of one window */
#define FG_MAX_IMAGES 4u         /* a process */

/* ---- registration: client -> monitor over a Unix stream socket, once per image ---------------------------------
 * One fg_registration, followed by `windows` times struct fg_window. The monitor answers with one fg_reply; if
 * status is 0 a descriptor of struct fg_published (read-only) comes with it by SCM_RIGHTS. Then both sides close.
 * A flag that one image of a process sets counts for the whole process. */
struct fg_registration {
	fg_u32 magic;   /* FG_ABI_MAGIC */
	fg_u32 version; /* FG_ABI_VERSION */
	fg_u32 size;    /* of the whole message, in bytes: sizeof(fg_registration) + windows * sizeof(fg_window) */
	fg_u32 windows;
	fg_s64 block_offset; /* of the thread block from the thread pointer */
	fg_u64 flags;        /* FG_WANT_*; others: EINVAL */
};

#define FG_WANT_SLICE_FORECAST 1ull /* publish when the slices of this process's threads end: fg_cpu below */

struct fg_reply {
	fg_u32 magic;
	fg_u32 version;
	fg_u32 status; /* 0 or an errno value: EPROTO not our magic, EPROTONOSUPPORT other version, EINVAL ... */
	fg_u32 number; /* to a registration: the domain; to a request for statistics: how many fg_u64 follow */
};

/* A request for statistics, from anybody, on a connection of its own. The answer is an fg_reply, `number` times fg_u64
 * (monitor/src/stats.rs says which; new ones come at the end), and for FG_STATUS_LIST a descriptor of a sealed
 * file of struct fg_listed (monitor/bpf/monitor.h). */
struct fg_status_request {
	fg_u32 magic; /* FG_STATUS_MAGIC */
	fg_u32 version;
	fg_u32 size; /* of this struct */
	fg_u32 what; /* enum fg_status_what */
};

#define FG_STATUS_MAGIC 0x53474c46u /* "FLGS" */

enum fg_status_what {
	FG_STATUS_TOTALS = 0,
	FG_STATUS_LIST = 1, /* and who is registered, and who is counted now */
};

#define FG_SOCKET_DEFAULT "/run/flexguard/monitor.sock"
#define FG_SOCKET_ENV "FLEXGUARD_SOCKET" /* a path, or @name for the abstract namespace */

/* ---- the shared page -------------------------------------------------------------------------------------------
 * num_preempted_cs has a cache line of its own: every spinner polls it. The page is frozen for all processes, so every
 * word is written by the kernel half: of its own accord, or when the user half runs its beat program. */
#define FG_OFF_CPU 256u    /* places for the names of critical threads that are off their CPU */
#define FG_COUNT_LINES 16u /* cache lines of preemptions */

struct fg_shared {
	fg_u32 num_preempted_cs; /* runnable critical threads that are off CPU, of the machine: statistics, domain 0 */
	fg_u32 pad0[15];

	fg_u32 magic; /* with each beat, the first before any client is served; like version, always the same */
	fg_u32 version;
	fg_u64 heartbeat_ns; /* CLOCK_MONOTONIC; with each beat, every FG_HEARTBEAT_NS; 0: the monitor has ended */
	fg_u64 pad1[6];

	fg_u64 mode_transitions; /* num_preempted_cs went 0 -> 1: the locks of domain 0 turn to blocking */
	fg_u64 missed;           /* critical preemptions that could not be counted (no memory for the record) */
	fg_u64 tick_ns;          /* period of the scheduler's tick; 0: unknown; with each beat, as magic */
	fg_u64 pad2[5];

	/* The kernel half's own notes, which live as long as the page. To a client only cpus_seen means something. */
	fg_u32 domain_kind;   /* enum fg_domain_kind of those that register; with each beat */
	fg_u32 domain_search; /* the number of the latest search for domains that no process is in */
	fg_u32 any_process;   /* some process has registered: until then every hook returns at once */
	fg_u32 slices_wanted; /* some process has asked for the slice forecasts: until then none are computed */
	fg_u32 cpus;          /* that the machine may have */
	fg_u32 named;         /* threads that sleep and have a name in off_cpu, and aged ones (monitor/bpf/monitor.h) */
	fg_u32 cpus_seen;     /* one more than the highest number of a CPU that has written its struct fg_cpu */
	fg_u32 pad3;
	fg_u64 blocking_since_ns; /* when num_preempted_cs rose from 0; 0: it has returned to 0 */
	fg_u64 blocking_ns;       /* time for which it was not 0 */
	fg_u64 pad4[2];

	/* Critical preemptions since load, by kind; CPU c adds to [c % FG_COUNT_LINES]. */
	struct {
		fg_u64 holders;
		fg_u64 next_waiters;
		fg_u64 pad[6];
	} preemptions[FG_COUNT_LINES];

	/* Critical threads, of domain 0, that are off their CPU: at fg_off_cpu_place(self) the thread block's `self`,
	 * with FG_RUNNABLE if the thread was preempted, without if it sleeps; from when the thread is switched out
	 * until it runs again; 0: no thread is known. For a waiter that has read in the lock's word for which thread it
	 * waits. Of two threads that share a place one is unknown, and in another PID namespace another thread may have
	 * the same name: a hint, on which no more than speed may depend. */
	fg_u32 off_cpu[FG_OFF_CPU];
	fg_u64 unused[224];
};

#define FG_RUNNABLE 0x80000000u

/* A thread that gives its handle away (include/flexguard/advice.h) has a note beside its name, at the same place of
 * off_cpu_notes: the life that it says it is, and the CPU that it was switched out on; 0: the name has none. A note is
 * written before its name. */
#define FG_NOTE_LIFE 0x003fffffu
#define FG_NOTE_CPU_SHIFT 22
#define FG_NOTE_NO_CPU 0x3ffu /* its number is as high, or higher */

/* Threads that were made one after the other do not share a cache line: they run on different CPUs. */
static inline fg_u32 fg_off_cpu_place(fg_u32 self)
{
	return (self % 16 * 16 + self / 16 % 16) % FG_OFF_CPU;
}

/* ---- domains ---------------------------------------------------------------------------------------------------
 * A program that never gets a CPU in its critical section keeps the counter above 0, and threads that sleep in theirs
 * take places in `off_cpu`. So that they harm their own user (or control group, or the programs on the same CPUs) only,
 * each domain has a counter and a table besides, and a process polls those of its domain. A process is in the domain
 * that it had when it registered; its children are in it, too. Domain 0 has the counter of the whole machine,
 * which is for statistics: a process is in it if all are. */
enum fg_domain_kind {
	FG_DOMAIN_MACHINE = 0, /* all processes are in domain 0 */
	FG_DOMAIN_USER = 1,    /* by real user id, or by the user who made the user namespace, if that is not root */
	FG_DOMAIN_CGROUP = 2,  /* by control group (of version 2) */
	FG_DOMAIN_CPUSET = 3,  /* by the set of CPUs that it may use, as the kernel says */
};

#define FG_DOMAINS 128u

struct fg_domain {
	fg_u32 num_preempted_cs; /* as that of the page, of this domain alone */
	fg_u32 searched;         /* the latest search that found a process in it */
	fg_u64 key;              /* kind << 56 | id of user or control group; of several: 4 << 56 | number; 0: free */
	fg_u64 mode_transitions; /* num_preempted_cs went 0 -> 1 */
	fg_u64 pad[5];
};

/* ---- what each CPU does ----------------------------------------------------------------------------------------
 * By CPU number; each CPU alone writes its own, at its switches, once some process has registered. A CPU of a higher
 * number than the last writes nothing: its threads are counted and named like others, and clients take it for a CPU
 * of which nothing is known. Hints, on which no more than speed may depend. */
#define FG_CPUS 1024u
#define FG_STAY_US 0x7fffu
#define FG_STAY_WAITS 0x8000u

struct fg_cpu {
	/* When the scheduler means to look for another thread than the one that runs there, CLOCK_MONOTONIC; 0:
	 * unknown. Written whenever the CPU switches to a thread of a process with FG_WANT_SLICE_FORECAST; to be read
	 * by such threads alone, of their own CPU. A forecast (monitor/bpf/slice.h). */
	fg_u64 slice_end_ns;

	fg_u32 idle; /* 1 while the CPU idles: a thread that is woken then takes no CPU from anybody */

	/* How often the CPU went from one process to another, and for how long the former had it, in us, at most
	 * FG_STAY_US. If the number changes while a thread yields its CPU, the thread gave the CPU to another process,
	 * for so long. FG_STAY_WAITS: the former did not go to sleep, so that it waits for the CPU, unless it was moved
	 * or may not run; it goes when the CPU idles. */
	fg_u16 process_switches;
	fg_u16 stay;
	fg_u64 pad[6];
};

/* What a client maps: of domain 0, the page alone will do; then nothing is known of CPUs. Pages that a client never
 * reads take no memory of it. */
struct fg_published {
	struct fg_shared page;
	struct fg_domain domains[FG_DOMAINS];   /* the first is not used, */
	fg_u32 off_cpu[FG_DOMAINS][FG_OFF_CPU]; /* nor is the first of these: as that of the page, of a domain each */
	fg_u32 off_cpu_notes[FG_DOMAINS][FG_OFF_CPU]; /* of the names in `off_cpu`; the first are of the page's names */
	struct fg_cpu cpus[FG_CPUS];
};

#define FG_HEARTBEAT_NS 500000000ull
#define FG_HEARTBEAT_DEAD_NS 3000000000ull /* older than this: the monitor is gone, its counter means nothing */

/* ---- layout, asserted alike in C, BPF and Rust ------------------------------------------------------------------ */
#ifdef __cplusplus
#define FG_ABI_ASSERT(c) static_assert(c, #c)
#else
#define FG_ABI_ASSERT(c) _Static_assert(c, #c)
#endif
#define FG_ABI_AT(t, f, n) FG_ABI_ASSERT(__builtin_offsetof(struct t, f) == (n))
FG_ABI_ASSERT(sizeof(struct fg_thread_block) == FG_CACHE_LINE);
FG_ABI_AT(fg_thread_block, held, 0);
FG_ABI_AT(fg_thread_block, self, 4);
FG_ABI_AT(fg_thread_block, node, 8);
FG_ABI_AT(fg_thread_block, pending, 16);
FG_ABI_AT(fg_thread_block, life, 24);
FG_ABI_AT(fg_thread_block, parks, 28);
FG_ABI_AT(fg_thread_block, lock_private, 40);
FG_ABI_ASSERT(sizeof(struct fg_queue_node) == FG_CACHE_LINE);
FG_ABI_AT(fg_queue_node, next, 0);
FG_ABI_AT(fg_queue_node, state, 8);
FG_ABI_AT(fg_queue_node, lock_private, 40);
FG_ABI_ASSERT(sizeof(struct fg_window) == 40);
FG_ABI_AT(fg_window, reg, 32);
FG_ABI_ASSERT(sizeof(struct fg_registration) == 32);
FG_ABI_AT(fg_registration, block_offset, 16);
FG_ABI_AT(fg_registration, flags, 24);
FG_ABI_ASSERT(sizeof(struct fg_reply) == 16);
FG_ABI_ASSERT(sizeof(struct fg_status_request) == 16);
FG_ABI_AT(fg_shared, num_preempted_cs, 0);
FG_ABI_AT(fg_shared, magic, 64);
FG_ABI_AT(fg_shared, heartbeat_ns, 72);
FG_ABI_AT(fg_shared, mode_transitions, 128);
FG_ABI_AT(fg_shared, missed, 136);
FG_ABI_AT(fg_shared, tick_ns, 144);
FG_ABI_AT(fg_shared, domain_kind, 192);
FG_ABI_AT(fg_shared, any_process, 200);
FG_ABI_AT(fg_shared, cpus_seen, 216);
FG_ABI_AT(fg_shared, blocking_ns, 232);
FG_ABI_AT(fg_shared, preemptions, 256);
FG_ABI_AT(fg_shared, off_cpu, 1280);
FG_ABI_ASSERT(sizeof(struct fg_shared) == FG_PAGE);
FG_ABI_ASSERT(sizeof(struct fg_domain) == FG_CACHE_LINE);
FG_ABI_AT(fg_domain, key, 8);
FG_ABI_AT(fg_published, domains, FG_PAGE);
FG_ABI_AT(fg_published, off_cpu, 3 * FG_PAGE);
FG_ABI_AT(fg_published, off_cpu_notes, 35 * FG_PAGE);
FG_ABI_ASSERT(sizeof(struct fg_cpu) == FG_CACHE_LINE);
FG_ABI_AT(fg_cpu, slice_end_ns, 0);
FG_ABI_AT(fg_cpu, idle, 8);
FG_ABI_AT(fg_cpu, process_switches, 12);
FG_ABI_AT(fg_cpu, stay, 14);
FG_ABI_AT(fg_published, cpus, 67 * FG_PAGE);
FG_ABI_ASSERT(sizeof(struct fg_published) == 83 * FG_PAGE);

#endif
