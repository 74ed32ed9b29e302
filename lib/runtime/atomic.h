/* SPDX-License-Identifier: MIT */
/* Atomic operations with their memory order in the name. No other file of the library uses __atomic_*, so that a
 * checker or a simulator can stand in for the hardware. What programs compile in uses them itself
 * (include/flexguard/inline.h and advice_optional.h). All work on naturally aligned objects of up to 8 bytes. A
 * compare-and-swap returns the value it found: it succeeded iff that equals what was expected. */
#ifndef FGI_ATOMIC_H
#define FGI_ATOMIC_H

#include <stdint.h>

#define fg_load_relaxed(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define fg_load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define fg_load_seq_cst(p) __atomic_load_n((p), __ATOMIC_SEQ_CST)
#define fg_store_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define fg_store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)

#define fg_xchg_relaxed(p, v) __atomic_exchange_n((p), (v), __ATOMIC_RELAXED)
#define fg_xchg_acquire(p, v) __atomic_exchange_n((p), (v), __ATOMIC_ACQUIRE)
#define fg_xchg_release(p, v) __atomic_exchange_n((p), (v), __ATOMIC_RELEASE)
#define fg_xchg_acq_rel(p, v) __atomic_exchange_n((p), (v), __ATOMIC_ACQ_REL)

#define fg_fetch_add_relaxed(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)
#define fg_fetch_add_acquire(p, v) __atomic_fetch_add((p), (v), __ATOMIC_ACQUIRE)
#define fg_fetch_add_acq_rel(p, v) __atomic_fetch_add((p), (v), __ATOMIC_ACQ_REL)
#define fg_fetch_add_release(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELEASE)
#define fg_fetch_and_relaxed(p, v) __atomic_fetch_and((p), (v), __ATOMIC_RELAXED)
#define fg_fetch_and_release(p, v) __atomic_fetch_and((p), (v), __ATOMIC_RELEASE)
#define fg_fetch_and_seq_cst(p, v) __atomic_fetch_and((p), (v), __ATOMIC_SEQ_CST)
#define fg_fetch_or_relaxed(p, v) __atomic_fetch_or((p), (v), __ATOMIC_RELAXED)
#define fg_fetch_sub_release(p, v) __atomic_fetch_sub((p), (v), __ATOMIC_RELEASE)

#define FGI_CAS(p, expected, desired, order, fail)                                                                     \
	({                                                                                                             \
		__typeof__(*(p)) fgi_found_ = (expected);                                                              \
		__atomic_compare_exchange_n((p), &fgi_found_, (desired), 0, order, fail);                              \
		fgi_found_;                                                                                            \
	})
#define fg_cas_relaxed(p, e, d) FGI_CAS(p, e, d, __ATOMIC_RELAXED, __ATOMIC_RELAXED)
#define fg_cas_acquire(p, e, d) FGI_CAS(p, e, d, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)
#define fg_cas_release(p, e, d) FGI_CAS(p, e, d, __ATOMIC_RELEASE, __ATOMIC_RELAXED)
#define fg_cas_seq_cst(p, e, d) FGI_CAS(p, e, d, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
#define fg_cas_acq_rel(p, e, d) FGI_CAS(p, e, d, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)

/* Keeps the compiler from moving memory accesses across. That is enough for what the monitor reads: it looks at a
 * thread when that is switched out, on the thread's own CPU, which sees the thread's accesses in program order. */
#define fg_compiler_barrier() __asm__ volatile("" ::: "memory")

#define fg_likely(x) __builtin_expect(!!(x), 1)
#define fg_unlikely(x) __builtin_expect(!!(x), 0)

#endif
