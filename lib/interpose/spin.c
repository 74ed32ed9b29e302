/* SPDX-License-Identifier: MIT */
/* pthread_spin_*: glibc's word and glibc's two values of it, so that a lock may be shared with processes that run
 * without an interposer. Only the waiting is ours: a waiter spins while the monitor says that no critical section is
 * preempted, for SPIN_NS at most; then it yields its CPU, to the holder if that is off its CPU, and after YIELD_NS it
 * also sleeps for moments: another program may have the CPU that the holder needs.
 *
 * A spinlock of a glibc with other values is glibc's.
 *
 * I1  The word alone decides. I5  By hand: held, after the take. Nobody sleeps on the word, so a release is a store,
 * and the memory may go with it. */
#include <errno.h>
#include <stdbool.h>

#include "interpose/glibc_layout.h"
#include "interpose/real.h"
#include "runtime/futex.h"
#include "runtime/spin.h"
#include "runtime/spin_budget.h"
#include "runtime/thread.h"

#define SPIN_NS 20000u
#define YIELD_NS 2000000u
#define FIRST_NAP_NS 20000u
#define LONGEST_NAP_NS 500000u

#define EXPORT __attribute__((visibility("default")))

/* Before the table of glibc's functions is filled, nothing is: the slow functions look again. */
static inline bool understood(void)
{
	return fg_likely(fg_load_relaxed(&fgi_real_table.spin_understood));
}

static inline uint32_t *word_of(pthread_spinlock_t *lock)
{
	return (uint32_t *)(uintptr_t)lock;
}

/* acquire: pairs with the release in pthread_spin_unlock. glibc's waiters may have counted the word below its held
 * value. */
static inline bool take(uint32_t *word)
{
	if (fg_cas_acquire(word, FGI_GLIBC_SPIN_FREE, FGI_GLIBC_SPIN_HELD) != FGI_GLIBC_SPIN_FREE)
		return false;
	fgi_held_raise();
	return true;
}

__attribute__((noinline)) static int lock_slow(pthread_spinlock_t *lock)
{
	struct fgi_spin_budget spinning = FGI_SPIN_BUDGET(FGI_NEVER), yielding = FGI_SPIN_BUDGET(FGI_NEVER);
	uint32_t *word = word_of(lock), nap_ns = FIRST_NAP_NS;
	bool spins = true;

	if (!fgi_real()->spin_understood)
		return fgi_real()->spin_lock(lock);
	for (;;) {
		if (fg_load_relaxed(word) == FGI_GLIBC_SPIN_FREE && take(word))
			return 0;
		spins = spins && !fgi_preempted_cs() && !fgi_spun_for(&spinning, SPIN_NS);
		if (spins) {
			fgi_spin_once();
		} else if (!fgi_spin_bound_look(&yielding, YIELD_NS)) {
			fgi_spin_yield();
		} else {
			fg_thread.parks++;
			fgi_nap(nap_ns);
			nap_ns = nap_ns < LONGEST_NAP_NS ? nap_ns * 2 : LONGEST_NAP_NS;
		}
	}
}

EXPORT int pthread_spin_lock(pthread_spinlock_t *lock)
{
	return understood() && fg_likely(take(word_of(lock))) ? 0 : lock_slow(lock);
}

__attribute__((noinline)) static int trylock_slow(pthread_spinlock_t *lock)
{
	uint32_t *word = word_of(lock);

	if (!fgi_real()->spin_understood)
		return fgi_real()->spin_trylock(lock);
	return fg_load_relaxed(word) == FGI_GLIBC_SPIN_FREE && take(word) ? 0 : EBUSY;
}

EXPORT int pthread_spin_trylock(pthread_spinlock_t *lock)
{
	return understood() && fg_likely(take(word_of(lock))) ? 0 : trylock_slow(lock);
}

/* A lock that nobody holds is not counted, and one that another thread has taken not here. */
static inline int release(uint32_t *word)
{
	if (fg_likely(fg_thread.held > 0) && fg_load_relaxed(word) != FGI_GLIBC_SPIN_FREE)
		fgi_held_lower();
	fg_store_release(word, FGI_GLIBC_SPIN_FREE);
	return 0;
}

__attribute__((noinline)) static int unlock_slow(pthread_spinlock_t *lock)
{
	return fgi_real()->spin_understood ? release(word_of(lock)) : fgi_real()->spin_unlock(lock);
}

EXPORT int pthread_spin_unlock(pthread_spinlock_t *lock)
{
	return understood() ? release(word_of(lock)) : unlock_slow(lock);
}
