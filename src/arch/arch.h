/* SPDX-License-Identifier: MIT */
/* The architecture is chosen here and nowhere else. */
#ifndef FGI_ARCH_H
#define FGI_ARCH_H

#if defined(__x86_64__) && defined(__LP64__)
#include "src/arch/x86_64/cpu.h"
#include "src/arch/x86_64/window.h"
#else
#error "FlexGuard knows x86-64; another architecture needs src/arch/<cpu>/{cpu,window}.h"
#endif

#endif
