/* SPDX-License-Identifier: MIT */
/* The architecture is chosen here and nowhere else. FGI_ARCH_GENERIC chooses runtime/arch/generic/, which is plain C,
 * on any: for ThreadSanitizer, which does not see what inline assembly does. It has no windows, by which the monitor
 * sees every holder of every lock. */
#ifndef FGI_ARCH_H
#define FGI_ARCH_H

#include "runtime/arch/window_entry.h"

#if defined(__x86_64__) && defined(__LP64__)
#include "runtime/arch/x86_64/cpu.h"
#include "runtime/arch/x86_64/system.h"
#elif defined(__aarch64__) && defined(__LP64__)
#include "runtime/arch/aarch64/cpu.h"
#include "runtime/arch/aarch64/system.h"
#else
#error "FlexGuard knows x86-64 and arm64; another one needs runtime/arch/<cpu>/{cpu,system,window}.h"
#endif

#if defined(__x86_64__) && !defined(FGI_ARCH_GENERIC)
#include "runtime/arch/x86_64/asymmetric.h"
#include "runtime/arch/x86_64/local.h"
#else
#include "runtime/arch/generic/asymmetric.h"
#include "runtime/arch/generic/local.h"
#endif

#if defined(FGI_ARCH_GENERIC)
#include "runtime/arch/generic/window.h"
#elif defined(__x86_64__)
#include "runtime/arch/x86_64/window.h"
#else
#include "runtime/arch/aarch64/window.h"
#endif

#endif
