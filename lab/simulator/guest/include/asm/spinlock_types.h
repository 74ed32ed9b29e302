/* SPDX-License-Identifier: MIT */
#ifndef FGS_ASM_SPINLOCK_TYPES_H
#define FGS_ASM_SPINLOCK_TYPES_H

#include <linux/atomic.h>

typedef struct {
	u32 word[2];
} arch_spinlock_t;

#endif
