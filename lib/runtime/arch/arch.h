/* SPDX-License-Identifier: MIT */
/* The architecture is chosen here and nowhere else. arm64 shares with runtime/arch/generic/ what is plain C there.
 * FGI_ARCH_GENERIC chooses all of that: for ThreadSanitizer, which does not see what inline assembly does. */
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
#error "FlexGuard knows x86-64 and arm64; another one needs runtime/arch/<cpu>/{asymmetric,cpu,local,system,window}.h"
#endif

#if defined(FGI_ARCH_GENERIC)
#include "runtime/arch/generic/asymmetric.h"
#include "runtime/arch/generic/local.h"
#include "runtime/arch/generic/window.h"
#elif defined(__x86_64__)
#include "runtime/arch/x86_64/asymmetric.h"
#include "runtime/arch/x86_64/local.h"
#include "runtime/arch/x86_64/window.h"
#else
#include "runtime/arch/aarch64/window.h"
#include "runtime/arch/generic/asymmetric.h"
#include "runtime/arch/generic/local.h"
#endif

#endif
