/* SPDX-License-Identifier: GPL-2.0-only */
/* FlexGuard in a guest: a waiter spins while the virtual CPU that holds the lock runs and halts while it does not, by
 * the word of the host's Preemption Monitor (FlexGuard, SOSP'25, section 6). A virtual CPU publishes what it holds in
 * its thread block, as any client of the monitor does.
 *
 *   next, serving   tickets: they order the waiters that run, and decide nothing
 *   word            FREE, or the holder's name, with HALTED if virtual CPUs may halt at it: this alone decides (I1)
 *
 * Waiting policy, for a waiter with n tickets before its own:
 *   the lock is held     spin while the holder runs; halt as soon as the monitor says that it is off its CPU, and
 *                        without the monitor's word after HALT_SPINS, with it after a time slice (I7)
 *   the lock is free     take it if n <= 0, or if all that wait with earlier tickets halt, or are off their CPUs by the
 *                        monitor's word, or when n * tau have passed, as in preemptable.h
 * So those that run are served in order, and neither a preempted holder nor a preempted waiter holds them up.
 *
 * A release that finds HALTED kicks one virtual CPU. One that was halted leaves HALTED in the word when it takes the
 * lock, since others may be halted still: so each of them is kicked in the end (I2). A waiter publishes that it is
 * critical, as the holder does: a ticket that is not served stops others, too (EuroSys'17, section 4.1). */
#include "lock.h"

struct lock {
	union {
		struct {
			u16 next;
			u16 serving;
			u32 word;
		};
		u64 all;
	};
};

#define FREE 0u
#define HALTED 0x80000000u
#define OWNER 0x1fffffffu
#define SLICE_SPINS 0x10000u /* some 2 ms of spins */

/* What each virtual CPU waits for, innermost: hints for those behind it. */
static struct waiter {
	struct lock *lock;
	u32 self;
	u16 ticket;
	u16 halts;
} waiters[NR_CPUS] ____cacheline_aligned_in_smp;

static bool is_first_present(struct lock *l, u16 ticket)
{
	unsigned int cpu;

	for (cpu = 0; cpu < nr_cpu_ids; cpu++) {
		const struct waiter *other = &waiters[cpu];

		if (READ_ONCE(other->lock) != l || (s16)(READ_ONCE(other->ticket) - ticket) >= 0)
			continue;
		if (!READ_ONCE(other->halts) && !flexguard_is_off(READ_ONCE(other->self)))
			return false;
	}
	return true;
}

static bool may_take(struct lock *l, s16 before, u16 ticket, u32 free_spins)
{
	if (before <= 0 || free_spins >= TAU_SPINS * (u32)before)
		return true;
	return flexguard_knows() && is_first_present(l, ticket);
}

static bool should_halt(u32 word, u32 spins)
{
	/* A monitor that has died may have left the name there for good. */
	if (flexguard_is_off(word & OWNER) && flexguard_monitored())
		return true;
	if (likely(spins < HALT_SPINS))
		return false;
	return spins >= SLICE_SPINS || !flexguard_monitored();
}

/* Halts at a lock that was seen held, unless it changes hands first. */
static void halt_at(struct lock *l, u32 word, struct waiter *me, struct waiting *w)
{
	if (!(word & HALTED) && cmpxchg_relaxed(&l->word, word, word | HALTED) != word)
		return;
	WRITE_ONCE(me->halts, 1);
	halt(w, &l->word, word | HALTED, EVERYBODY);
	WRITE_ONCE(me->halts, 0);
}

static noinline void wait_and_take(struct lock *l, u16 ticket, u32 self)
{
	struct waiter *me = &waiters[raw_smp_processor_id()], outer = *me;
	u32 spins = 0, free_spins = 0, word, take = self;
	struct waiting w;
	u16 serving, last = READ_ONCE(l->serving);

	wait_begin(&w, max((s16)(ticket - last), 0));
	publish_held(); /* for the wait, and then for the lock */
	WRITE_ONCE(me->lock, NULL);
	me->self = self;
	me->ticket = ticket;
	me->halts = 0;
	smp_store_release(&me->lock, l);
	for (;;) {
		serving = READ_ONCE(l->serving);
		word = READ_ONCE(l->word);
		if (serving != last) {
			last = serving;
			free_spins = 0;
		}
		if (stalled(&w))
			count_stall(word != FREE);
		if (word == FREE) {
			publish_intent(&l->word);
			if (may_take(l, (s16)(ticket - serving), ticket, free_spins++) &&
			    cmpxchg_acquire(&l->word, FREE, take) == FREE)
				break;
		} else if (should_halt(word, spins++)) {
			halt_at(l, word, me, &w);
			count_spin(&w); /* a stall is counted once */
			take = self | HALTED;
			spins = 0;
			continue;
		}
		spin_once(&w);
	}
	publish_intent(NULL);
	*me = outer;
	wait_end(&w);
	count_order((s16)(ticket - READ_ONCE(l->serving)));
}

static __always_inline void lock_take(struct lock *l)
{
	u32 self = published_self();
	u16 ticket = xadd(&l->next, 1);

	if (READ_ONCE(l->serving) == ticket) {
		publish_intent(&l->word);
		if (likely(cmpxchg_acquire(&l->word, FREE, self) == FREE)) {
			publish_held();
			publish_intent(NULL);
			return;
		}
	}
	wait_and_take(l, ticket, self);
}

static __always_inline bool lock_try(struct lock *l)
{
	struct lock seen = {.all = READ_ONCE(l->all)}, taken = seen;

	if (seen.next != seen.serving || seen.word != FREE)
		return false;
	taken.next++;
	taken.word = published_self();
	publish_intent(&l->word);
	if (cmpxchg_acquire(&l->all, seen.all, taken.all) != seen.all) {
		publish_intent(NULL);
		return false;
	}
	publish_held();
	publish_intent(NULL);
	return true;
}

static __always_inline void lock_drop(struct lock *l)
{
	u32 word;

	publish_intent(&l->word);
	publish_dropped();
	/* Only the holder writes it; a draw beside it is a locked instruction on two other bytes. */
	WRITE_ONCE(l->serving, (u16)(l->serving + 1));
	word = xchg_release(&l->word, FREE);
	publish_intent(NULL);
	if (unlikely(word & HALTED))
		kick(&l->word, 1, EVERYBODY);
}

static __always_inline bool lock_is_locked(struct lock *l)
{
	struct lock seen = {.all = READ_ONCE(l->all)};

	return seen.next != seen.serving || seen.word != FREE;
}

static __always_inline bool lock_is_contended(struct lock *l)
{
	struct lock seen = {.all = READ_ONCE(l->all)};

	return (s16)(seen.next - seen.serving) > 1;
}
