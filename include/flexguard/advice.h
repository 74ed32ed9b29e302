/* SPDX-License-Identifier: MIT */
/* For programs with locks, barriers and wait loops of their own: what their threads tell the Preemption Monitor, and
 * what a waiter is advised to do.
 *
 * A lock of a program's own:
 *
 *   fg_handle me = fg_thread_handle();      once in each thread
 *
 *   fg_section_begin();                     take
 *   while (!compare_and_swap(&owner, 0, me)) {
 *           fg_section_end();
 *           for (struct fg_wait w = {.whom = owner}; owner; w.whom = owner)
 *                   fg_wait_once(&w);       spins, yields or sleeps, as is right
 *           fg_section_begin();
 *   }
 *   ...
 *   owner = 0;                              release
 *   fg_section_end();
 *
 * A thread is in a section while others wait, or may soon wait, for what it does: it has a lock, or it has not yet come
 * to a barrier. The monitor sees it lose its CPU there. A waiter that says for whom it waits learns whether that thread
 * runs; one that says for how many it waits, whether they can all run; any waiter, whether some thread in a section is
 * preempted. All of it concerns the processes of this user (of whatever shares a domain: `flexguard monitor
 * --domains`), and works between them. Advice is a hint: speed may depend on it, and nothing else. Without a monitor
 * the advice is to spin a little, to yield a few times, and to sleep.
 *
 * Wrong use slows the programs of this user down, and breaks none. A section that is not ended: its thread counts as in
 * a section until it ends, so waiters yield or sleep whenever it is preempted; after a second without a CPU it no
 * longer counts. A section ended twice: the next one of the thread is not seen. A process that dies in a section counts
 * no longer. The child of a fork is in the sections that the forking thread was in. A handle of a thread that has ended
 * matches no other thread: the advice is that of a waiter that has waited for long.
 *
 * All calls are thread-safe and async-signal-safe; none allocates, takes a lock, prints, touches errno or is a
 * cancellation point. <flexguard/advice_optional.h> has the same calls for programs that do not link the library. */
#ifndef FLEXGUARD_ADVICE_H
#define FLEXGUARD_ADVICE_H

#include <flexguard/advice_types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The calling thread enters a section, or one more. Costs a call and one instruction; the first call of a thread also
 * finds its tid. Begun before the attempt to take a lock, it covers the instruction that takes it: no preemption of an
 * owner is missed, and a waiter counts for the instant of its attempt. */
void fg_section_begin(void);

/* It leaves the section that it entered last. After the store that releases, before a waiter is woken: a thread that
 * only wakes others is not waited for. */
void fg_section_end(void);

/* Names the calling thread to its waiters, in every process that shares memory with it: a tid, and a number that tells
 * the thread from others that had the tid before it. Never 0; bit 31 and the bits 56 to 63 are 0. The same until the
 * thread ends; the child of a fork has another. It keeps its parent's until it executes a program if vfork has made it,
 * or if _Fork or a system call has, before Linux 4.14 or under more seccomp filters than are expected at the start. The
 * first call reads the clock. In a child of _Fork or of a system call it also gives the thread its new tid, by which a
 * recursive mutex that it held across the fork is no longer its own. */
fg_handle fg_thread_handle(void);

/* What a waiter is to do next. Where nothing is wrong it costs a call and three loads. Makes no system call; every
 * 256th look of a wait reads the clock, by which it learns that a monitor has died. In a process with
 * FLEXGUARD_RECONNECT=1 it may then also connect to another one. */
struct fg_advice fg_wait_advice(const struct fg_wait *w);

/* Asks, does it, and counts one look: executes a spin hint, calls sched_yield, or sleeps for advice.sleep_ns. Where
 * more than four threads of this process for each CPU sleep here, a sleep is longer in proportion, up to a second. A
 * thread that ends in a sleep, or leaves it by longjmp, counts as asleep for two seconds more. Returns what it did. */
struct fg_advice fg_wait_once(struct fg_wait *w);

#ifdef __cplusplus
}
#endif
#endif
