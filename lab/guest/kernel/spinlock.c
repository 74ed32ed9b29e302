// SPDX-License-Identifier: GPL-2.0-only
/* The kernel's spinlock: the file of guest/locks that FLEXGUARD_LOCK names, behind the functions that the kernel calls.
 * kernel/locking/spinlock.c has disabled preemption, and interrupts where it must, before any of them runs. */
#include <linux/export.h>
#include <linux/spinlock.h>

#include "lock.h"
#include FLEXGUARD_LOCK

static_assert(sizeof(struct lock) <= sizeof(arch_spinlock_t));

const char flexguard_lock_name[] = FLEXGUARD_NAME;

void __lockfunc arch_spin_lock(arch_spinlock_t *lock)
{
	lock_take((struct lock *)lock);
	count_taken(lock);
}
EXPORT_SYMBOL(arch_spin_lock);

int __lockfunc arch_spin_trylock(arch_spinlock_t *lock)
{
	if (!lock_try((struct lock *)lock))
		return 0;
	count_taken(lock);
	return 1;
}
EXPORT_SYMBOL(arch_spin_trylock);

void __lockfunc arch_spin_unlock(arch_spinlock_t *lock)
{
	count_dropped(lock);
	lock_drop((struct lock *)lock);
}
EXPORT_SYMBOL(arch_spin_unlock);

int __lockfunc arch_spin_is_locked(arch_spinlock_t *lock)
{
	return lock_is_locked((struct lock *)lock);
}
EXPORT_SYMBOL(arch_spin_is_locked);

int __lockfunc arch_spin_is_contended(arch_spinlock_t *lock)
{
	return lock_is_contended((struct lock *)lock);
}
EXPORT_SYMBOL(arch_spin_is_contended);

int __lockfunc arch_spin_value_unlocked(arch_spinlock_t lock)
{
	return !lock_is_locked((struct lock *)&lock);
}
EXPORT_SYMBOL(arch_spin_value_unlocked);
