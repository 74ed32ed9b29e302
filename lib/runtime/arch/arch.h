/* SPDX-License-Identifier: MIT */
/* The architecture is chosen here and nowhere else. */
#ifndef FGI_ARCH_H
#define FGI_ARCH_H

#include "runtime/arch/window_entry.h"

#if defined(__x86_64__) && defined(__LP64__)
#include "runtime/arch/x86_64/asymmetric.h"
#include "runtime/arch/x86_64/cpu.h"
#include "runtime/arch/x86_64/local.h"
#include "runtime/arch/x86_64/system.h"
#include "runtime/arch/x86_64/window.h"
#elif defined(__aarch64__) && defined(__LP64__)
#include "runtime/arch/aarch64/asymmetric.h"
#include "runtime/arch/aarch64/cpu.h"
#include "runtime/arch/aarch64/local.h"
#include "runtime/arch/aarch64/system.h"
#include "runtime/arch/aarch64/window.h"
#else
#error "FlexGuard knows x86-64 and arm64; another one needs runtime/arch/<cpu>/{asymmetric,cpu,local,system,window}.h"
#endif

#endif
