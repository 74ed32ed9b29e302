/* SPDX-License-Identifier: GPL-2.0-only */
/* What a kernel that was built to count (FLEXGUARD_COUNTS) counts in its spinlock, as the papers count it; in the
 * others all of it compiles to nothing but the number of spins that a waiter has made.
 *
 * Stalls (VEE'13, section 3, Table 1): a waiter that has made STALL_SPINS looks whether the lock is held. If it is,
 * its holder was preempted (Nh), otherwise the waiter whose turn it is (Nw). Deviation: that is after 70 us, there
 * after about 1 us, so shorter waits for a holder at work are not taken for stalls.
 * Problematic preemptions (EuroSys'17, section 2.3.2): a lock taken in one time slice and released in another, or a
 * ticket drawn in one and served in another. A slice is told from another by what the monitor publishes for the CPU;
 * without a monitor these stay 0. A slice that a waiter gave up itself, by a halt or a yield, does not count. */
#ifndef FLEXGUARD_COUNTS_H
#define FLEXGUARD_COUNTS_H

#include <linux/minmax.h>
#include <linux/threads.h>
#include <linux/types.h>

#include <asm/spinlock_types.h>

#include <flexguard_host.h>

#define STALL_SPINS 2048

/* A virtual CPU waits in one task and three kinds of handlers at most. A waiter that 2^15 later tickets have passed
 * seems to be far behind them: tickets have 16 bits. */
#define TICKETS_MOST (4 * NR_CPUS)

struct flexguard_counts {
	u64 taken;
	u64 waited;         /* took the slow path */
	u64 stalls_holder;  /* Nh */
	u64 stalls_waiter;  /* Nw */
	u64 slices_holder;  /* problematic preemptions of a holder */
	u64 slices_waiter;  /* and of a waiter */
	u64 overtaken;      /* tickets that waited while a later one was served */
	u64 overtaken_most; /* by one of them */
	u64 queued;         /* sum over the waits of the tickets before one's own */
	u64 queued_most;
	u64 halts;
	u64 kicks;
	u64 yields;
	u64 incapable; /* the slice was too short for a ticket */
	u64 spins;     /* in the waits */
	u64 spin_cycles;
};

#define FLEXGUARD_COUNTERS (sizeof(struct flexguard_counts) / sizeof(u64))

extern const char flexguard_lock_name[];

struct waiting {
	u32 spins;
#ifdef FLEXGUARD_COUNTS
	u64 begun;
	u64 slice;
#endif
};

#ifdef FLEXGUARD_COUNTS
#define COUNTING 1

void flexguard_wait_begin(struct waiting *w, u16 before);
void flexguard_wait_end(struct waiting *w);
void flexguard_count_taken(arch_spinlock_t *lock);
void flexguard_count_dropped(arch_spinlock_t *lock);
struct flexguard_counts *flexguard_counts_here(void);

#define COUNT(field, n) (flexguard_counts_here()->field += (n))
#define COUNT_MOST(field, n)                                                                                           \
	do {                                                                                                           \
		struct flexguard_counts *here = flexguard_counts_here();                                               \
                                                                                                                       \
		here->field = max_t(u64, here->field, n);                                                              \
	} while (0)
#else
#define COUNTING 0
#define COUNT(field, n) ((void)(n))
#define COUNT_MOST(field, n) ((void)(n))

static inline void flexguard_wait_begin(struct waiting *w, u16 before)
{
}
static inline void flexguard_wait_end(struct waiting *w)
{
}
static inline void flexguard_count_taken(arch_spinlock_t *lock)
{
}
static inline void flexguard_count_dropped(arch_spinlock_t *lock)
{
}
#endif

static __always_inline void wait_begin(struct waiting *w, u16 before)
{
	w->spins = 0;
	flexguard_wait_begin(w, before);
}

static __always_inline void wait_end(struct waiting *w)
{
	flexguard_wait_end(w);
}

static __always_inline void count_spin(struct waiting *w)
{
	w->spins++;
}

static __always_inline bool stalled(const struct waiting *w)
{
	return COUNTING && w->spins == STALL_SPINS;
}

static __always_inline void count_stall(bool owned)
{
	if (owned)
		COUNT(stalls_holder, 1);
	else
		COUNT(stalls_waiter, 1);
}

/* `before`: how many tickets earlier than one's own have not been served; negative if one was overtaken. */
static __always_inline void count_order(s16 before)
{
	if (before <= 0 || before > TICKETS_MOST)
		return;
	COUNT(overtaken, before);
	COUNT_MOST(overtaken_most, before);
}

static __always_inline void count_halt(struct waiting *w)
{
	COUNT(halts, 1);
}

static __always_inline void count_kick(void)
{
	COUNT(kicks, 1);
}

static __always_inline void count_resumed(struct waiting *w)
{
#ifdef FLEXGUARD_COUNTS
	w->slice = flexguard_slice();
#endif
}

#define count_taken flexguard_count_taken
#define count_dropped flexguard_count_dropped

#endif
