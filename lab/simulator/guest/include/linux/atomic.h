/* SPDX-License-Identifier: MIT */
/* What the guests' spinlocks use of the kernel, by runtime/atomic.h. The other headers of this folder include
 * this one. */
#ifndef FGS_LINUX_ATOMIC_H
#define FGS_LINUX_ATOMIC_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/arch/arch.h"
#include "runtime/atomic.h"
#include "simulator/guest_host.h"

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int16_t s16;

#define noinline /* in an attribute, too */
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define max(a, b) ((a) > (b) ? (a) : (b))

#define READ_ONCE(x) fg_load_relaxed(&(x))
#define WRITE_ONCE(x, v) fg_store_relaxed(&(x), v)
#define smp_load_acquire(p) fg_load_acquire(p)
#define smp_store_release(p, v) fg_store_release(p, v)
#define xadd(p, v) fg_fetch_add_acq_rel(p, v)
#define xchg_acquire(p, v) fg_xchg_acquire(p, v)
#define xchg_release(p, v) fg_xchg_release(p, v)
#define cmpxchg_acquire(p, old, new) fg_cas_acquire(p, old, new)
#define cmpxchg_relaxed(p, old, new) fg_cas_relaxed(p, old, new)

#define NR_CPUS 256
#define nr_cpu_ids fgs_guest_cpus()
#define raw_smp_processor_id fgs_guest_cpu
#define ____cacheline_aligned_in_smp __attribute__((aligned(64)))
#define cpu_relax fg_pause

#endif
