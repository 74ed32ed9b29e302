/* SPDX-License-Identifier: GPL-2.0-only */
/* What the host gives to a guest's spinlocks. A virtual CPU is a thread of the host: it halts by a futex, and another
 * kicks it; the host's Preemption Monitor, if there is one, tells it of time slices and preempted holders. None of
 * these sleeps in the guest's sense, and each may be called with interrupts on or off. */
#ifndef __FLEXGUARD_HOST_H
#define __FLEXGUARD_HOST_H

/* Sleeps until a kick of one of `bits`, unless *word has another value than `seen`. Returns early for a signal. */
void flexguard_halt(unsigned int *word, unsigned int seen, unsigned int bits);
/* Wakes at most `most` of the virtual CPUs that halt at `word` with one of `bits`. */
void flexguard_kick(unsigned int *word, int most, unsigned int bits);
/* Gives the host's CPU to another thread that wants it. */
void flexguard_yield(void);

/* The host's CLOCK_MONOTONIC, in ns. */
unsigned long long flexguard_now(void);
/* Names the calling virtual CPU in its thread block, by its thread id on the host; publish.h has the rest. */
unsigned int flexguard_name_self(void);

/* Was a monitor attached, by what is known; and does it live: that asks the clock. */
int flexguard_knows(void);
int flexguard_monitored(void);
/* Is that critical virtual CPU off its CPU, runnable or not. A hint: without a monitor never. */
int flexguard_is_off(unsigned int self);
/* A number that differs from slice to slice of the calling virtual CPU; 0 without a monitor. */
unsigned long long flexguard_slice(void);
/* When this slice ends, given flexguard_slice() and flexguard_now(); 0 if that is unknown. */
unsigned long long flexguard_slice_end(unsigned long long slice, unsigned long long now);

/* The interrupt that ends a slice comes, and takes effect, at most this much after its time. */
#define FLEXGUARD_TICK_LATE_NS 10000ull

#endif
