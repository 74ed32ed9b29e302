/* SPDX-License-Identifier: GPL-2.0-only */
/* arch/x86/um/asm/spinlock.h of a guest. With FLEXGUARD_SPINLOCK every spinlock of the kernel is the one that was
 * chosen by name; its code is one object (flexguard/spinlock.c), so that another lock is one compilation and one link.
 * Without, the kernel keeps the spinlock it ships with. */
#ifndef __ASM_UM_SPINLOCK_H
#define __ASM_UM_SPINLOCK_H

#ifdef CONFIG_FLEXGUARD_SPINLOCK
#include <asm/spinlock_types.h>

void arch_spin_lock(arch_spinlock_t *lock);
int arch_spin_trylock(arch_spinlock_t *lock);
void arch_spin_unlock(arch_spinlock_t *lock);
int arch_spin_is_locked(arch_spinlock_t *lock);
int arch_spin_is_contended(arch_spinlock_t *lock);
int arch_spin_value_unlocked(arch_spinlock_t lock);

#define arch_spin_is_contended arch_spin_is_contended
#else
#include <asm/qspinlock.h>
#endif
#include <asm/qrwlock.h>

#endif
