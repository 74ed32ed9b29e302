/* SPDX-License-Identifier: GPL-2.0-only */
/* arch/x86/um/asm/spinlock_types.h of a guest. A lock of guest/locks has 8 bytes, all 0 while it is free and new. */
#ifndef __ASM_UM_SPINLOCK_TYPES_H
#define __ASM_UM_SPINLOCK_TYPES_H

#include <linux/types.h>

#ifdef CONFIG_FLEXGUARD_SPINLOCK
typedef struct {
	u32 word[2];
} __aligned(8) arch_spinlock_t;

#define __ARCH_SPIN_LOCK_UNLOCKED                                                                                      \
	{                                                                                                              \
		{                                                                                                      \
			0, 0                                                                                           \
		}                                                                                                      \
	}
#else
#include <asm-generic/qspinlock_types.h>
#endif
#include <asm-generic/qrwlock_types.h>

#endif
