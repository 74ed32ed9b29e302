/* SPDX-License-Identifier: MIT */
/* The numbers that a measurement chose, all of them: docs/results/default-lock.md has what they change at other values.
 * The others follow from these. */
#ifndef FGI_DEFAULT_NUMBERS_H
#define FGI_DEFAULT_NUMBERS_H

/* LONG_WAIT, the unit of fairness: a waiter that others have passed for so long becomes the head waiter, and a lock
 * that has not moved for so long is worth a sleep without a clock. */
#ifndef FGI_LONG_WAIT_NS
#define FGI_LONG_WAIT_NS 1000000u
#endif

/* Of a waiter without a clock, for each MANY of them, so that 200 wake some 8 times a second. Nothing rests on it (I2),
 * unless a woken waiter is stopped before it takes the lock: by a debugger, or by a signal handler that waits for
 * another thread, perhaps for one that waits here. */
#ifndef FGI_LONGEST_SLEEP_NS
#define FGI_LONGEST_SLEEP_NS 1000000000u
#endif

/* Of a process that uses no more CPUs all waiters may stay awake: no more than three look at the same time. */
#ifndef FGI_FEW_CPUS
#define FGI_FEW_CPUS 4u
#endif

#define FGI_HOT_NS 600u /* no lock is hot that is acquired less often */
#define FGI_PAUSES 4u   /* between two looks at the word, at least */

/* FEW waiters stay awake where CPUs are many. Where a critical thread is preempted a waiter yields FEW times.
 *
 * SOME: of so many takers beside a watcher one has a parked waiter woken. A waiter that others have passed looks up to
 * SOME times less often. For SOME LONG_WAITs no waiter yields where another process is said to wait for the CPU.
 *
 * MANY: a LONG_WAIT is so many turns, and FEW of MANY parts of a turn are a lease. A waiter looks at the clock, and
 * offers its CPU, after MANY short pauses; a hot lock's pauses are MANY * MANY short ones. For MANY looks a thread
 * leaves a demanded lock to the head waiter. By their clocks MANY parked waiters, or up to FEW * MANY times as many,
 * wake MANY times in a LONG_WAIT. A waiter tries FEW * MANY times to sleep beside a watcher. A lock is hot if that
 * makes it faster by one part in MANY; its pace is a mean over MANY measurements, and is tried again after FEW
 * LONG_WAITs, later after each trial that is lost. */
#define FGI_FEW 2u
#define FGI_SOME 4u
#define FGI_MANY 8u

/* A turn of a parked or head waiter, at most; the time of a measurement. */
#define FGI_TURN_NS (FGI_LONG_WAIT_NS / FGI_MANY)

#endif
